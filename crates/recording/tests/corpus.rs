//! Replays the fuzz corpus of the reader on stable.

#[path = "../../../fuzz/properties/recording_reader.rs"]
mod property;

use std::path::Path;

use vmnoise_recording::{Ending, ReadError};

#[test]
fn every_file_of_the_corpus() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/recording_reader");
    let (mut complete, mut cut_off, mut truncated, mut corrupt, mut foreign) = (0, 0, 0, 0, 0);
    for entry in folder.read_dir().unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        match property::check(&bytes) {
            Ok(Ending::Complete) => complete += 1,
            Ok(Ending::CutOff { .. }) => cut_off += 1,
            Err(ReadError::Truncated { .. }) => truncated += 1,
            Err(ReadError::Corrupt { .. }) => corrupt += 1,
            Err(_) => foreign += 1,
        }
    }
    let found = [complete, cut_off, truncated, corrupt, foreign];
    assert!(
        found.iter().all(|files| *files > 0),
        "complete, cut off, truncated, corrupt, foreign: {found:?}; \
         renew the seeds as fuzz/README.md says"
    );
}
