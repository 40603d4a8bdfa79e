//! Repeats all inputs that ever broke a property, and the first inputs of the search.

use std::path::PathBuf;
use std::process::Command;

/// Folders with inputs, and the minimum number of inputs in each folder.
const KEPT: [(&str, usize); 6] = [
    ("activity_decode", 10),
    ("feed_decoder", 1),
    ("feed_sender", 1),
    ("join", 2),
    ("recording_reader", 10),
    ("recordings", 5),
];

#[test]
fn every_folder_is_there() {
    for (folder, least) in KEPT {
        let files = std::fs::read_dir(vmnoise_fuzz::corpus().join(folder)).unwrap();
        let files = files.count();
        assert!(files >= least, "{folder}: {files}");
        let is_tried = |target: &vmnoise_fuzz::FuzzTarget| target.corpus == folder;
        assert!(vmnoise_fuzz::TARGETS.iter().any(is_tried), "{folder}");
    }
}

#[test]
fn every_file_holds() {
    for target in vmnoise_fuzz::TARGETS {
        let folder = vmnoise_fuzz::corpus().join(target.corpus);
        let files = std::fs::read_dir(&folder).into_iter().flatten();
        let files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
        let mut again = Command::new(env!("CARGO_BIN_EXE_fuzz"));
        let output = again
            .args(["again", target.name])
            .args(files)
            .output()
            .unwrap();
        // The last file name in the output is the file that failed.
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
