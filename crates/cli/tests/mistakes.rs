//! Tests of users' mistakes: a recording named as its own output, a result on a full disk, the same
//! recording given twice.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::{join_pair, many_gaps};

/// Returns a folder with a recording of gaps and one of timers.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    many_gaps::write(&folder.path().join("gaps.vmn"), 5_000, 100);
    join_pair::write_tasks(&folder.path().join("tasks.vmn"));
    folder
}

/// Runs the binary in this folder; returns its status and its messages.
fn vmnoise(folder: &Path, arguments: &str) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
    let output = command
        .current_dir(folder)
        .args(arguments.split_whitespace())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), said)
}

fn bytes(folder: &TempDir, name: &str) -> Vec<u8> {
    std::fs::read(folder.path().join(name)).unwrap()
}

#[test]
fn no_recording_is_overwritten_by_what_is_made_of_one() {
    let folder = folder();
    let of = |name: &str| -> PathBuf { folder.path().join(name) };
    std::os::unix::fs::symlink("gaps.vmn", of("link.vmn")).unwrap();
    std::fs::hard_link(of("tasks.vmn"), of("hard.vmn")).unwrap();
    let whole = bytes(&folder, "gaps.vmn");
    std::fs::write(of("cut.vmn"), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(of("stub.vmn"), &whole[..100]).unwrap();
    let names = ["gaps.vmn", "tasks.vmn", "cut.vmn", "stub.vmn"];
    let before = names.map(|name| bytes(&folder, name));
    for arguments in [
        "report gaps.vmn -o gaps.vmn",
        "report gaps.vmn -o link.vmn",
        "report gaps.vmn -o tasks.vmn",
        "report gaps.vmn stub.vmn -o stub.vmn",
        "report gaps.vmn -o cut.vmn",
        "export gaps.vmn --perfetto gaps.vmn",
        "export tasks.vmn --rt-tests hard.vmn",
        "timerlat -d 1s --json tasks.vmn",
    ] {
        let (status, said) = vmnoise(folder.path(), arguments);
        assert_eq!(status, 129, "{arguments}: {said}");
        let expected = "is a recording and would be overwritten: name another file\n";
        assert!(said.ends_with(expected), "{arguments}: {said}");
    }
    assert_eq!(names.map(|name| bytes(&folder, name)), before);
    // Only recordings are protected: a page is written again.
    for _ in 0..2 {
        assert_eq!(vmnoise(folder.path(), "report gaps.vmn -o page.html").0, 0);
    }
}

#[test]
fn two_results_need_two_files() {
    let folder = folder();
    let arguments = "export tasks.vmn --rt-tests both --perfetto both";
    let (status, said) = vmnoise(folder.path(), arguments);
    assert_eq!(status, 129);
    assert_eq!(
        said,
        "vmnoise: both cannot hold two results: name a file for each\n"
    );
    assert!(
        !folder.path().join("both").exists(),
        "nothing is left behind"
    );
}

#[test]
fn a_result_without_room_is_an_error_that_says_where() {
    let folder = folder();
    for (arguments, place) in [
        (
            "report gaps.vmn -o /dev/full",
            "cannot write the page /dev/full",
        ),
        (
            "export gaps.vmn --perfetto /dev/full",
            "cannot write /dev/full",
        ),
        (
            "export tasks.vmn --rt-tests /dev/full",
            "cannot write /dev/full",
        ),
        (
            "export gaps.vmn --host x --csv gaps.vmn",
            "cannot write gaps.vmn/",
        ),
    ] {
        let (status, said) = vmnoise(folder.path(), arguments);
        assert_eq!(status, 1, "{arguments}: {said}");
        assert!(said.starts_with(&format!("vmnoise: {place}")), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    for arguments in [
        "explain gaps.vmn",
        "compare gaps.vmn",
        "check gaps.vmn --max 1us",
        "scale gaps.vmn --step 100us",
        "report gaps.vmn -o page.html",
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        command.current_dir(folder.path()).stdout(full.unwrap());
        let output = command.args(arguments.split(' ')).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.starts_with("vmnoise: cannot write the result to stdout: "),
            "{said}"
        );
    }
}

/// Another user may give a file any name.
#[test]
fn a_file_is_called_what_steers_nothing() {
    const FORGED: &str = "it\nvmnoise: all is well\u{202e}";
    let folder = folder();
    let whole = bytes(&folder, "gaps.vmn");
    std::fs::write(folder.path().join(FORGED), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(folder.path().join(format!("{FORGED}.stub")), &whole[..100]).unwrap();
    let stub = format!("{FORGED}.stub");
    let gone = format!("{FORGED}.gone");
    for arguments in [
        &["explain", FORGED][..],
        &["explain", &stub],
        &["explain", &gone],
        &["explain", FORGED, &gone],
        &["report", FORGED, &stub, "-o", "page.html"],
        &["compare", FORGED, &stub],
        &["check", FORGED, "--max", "1us"],
        &["scale", FORGED],
        &["check", "gaps.vmn", "--budget", &gone],
        &["export", FORGED, "--perfetto", FORGED],
        &["export", FORGED, "--csv", "tables"],
        &["export", FORGED, "--rt-tests", "json"],
        &["report", "gaps.vmn", "-o", &format!("{gone}/page")],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_vmnoise"))
            .current_dir(folder.path())
            .args(arguments)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.starts_with("vmnoise: "),
            "{arguments:?} says nothing: {said}"
        );
        assert!(!said.contains("\nvmnoise: all is well"), "{said}");
        assert!(!said.contains('\u{202e}'), "{said}");
    }
    let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.contains("all is well"));
    assert!(!page.contains('\u{202e}'));
}

#[test]
fn the_same_recording_twice_is_reported() {
    let folder = folder();
    let (status, said) = vmnoise(folder.path(), "compare gaps.vmn gaps.vmn");
    assert_eq!(
        (status, said.as_str()),
        (0, "vmnoise: gaps.vmn and gaps.vmn are of the same run\n")
    );
    let (status, said) = vmnoise(folder.path(), "report gaps.vmn ./gaps.vmn -o page.html");
    assert_eq!(
        (status, said.as_str()),
        (0, "vmnoise: ./gaps.vmn is named twice, and shown once\n")
    );
    let page = String::from_utf8(bytes(&folder, "page.html")).unwrap();
    assert!(page.contains("id=\"run0-spikes\"") && !page.contains("id=\"run1-spikes\""));
}

mod root {
    use std::os::unix::fs::{MetadataExt, chown, symlink};

    use super::*;

    /// The owner of a file could read its new content.
    #[test]
    fn no_recording_and_no_trace_goes_to_a_file_of_somebody_else() {
        let folder = tempfile::tempdir().unwrap();
        for (name, line) in [
            ("laid.vmn", "osnoise -c 1 -d 100ms -o laid.vmn"),
            ("osnoise_trace.txt", "osnoise -c 1 -d 20s -s 1 -t"),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, "theirs").unwrap();
            chown(&path, Some(65534), None).unwrap();
            let (status, said) = vmnoise(folder.path(), line);
            assert_eq!(status, 1, "{said}");
            assert!(said.contains("belongs to the user 65534"), "{said}");
            assert_eq!(std::fs::read(&path).unwrap(), b"theirs");
        }
    }

    /// Recordings and traces name every task that ran.
    #[test]
    fn recordings_and_traces_are_for_their_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        // The file may have had any mode before.
        std::fs::write(path("old.vmn"), "").unwrap();
        let stops = "osnoise -c 1 -d 20s -s 1 -t -o old.vmn";
        let (status, said) = vmnoise(folder.path(), stops);
        assert_eq!(status, 2, "{said}");
        for name in ["old.vmn", "osnoise_trace.txt"] {
            let mode = std::fs::metadata(path(name)).unwrap().mode() & 0o777;
            assert_eq!(mode, 0o600, "{name}");
        }
        // The user did not name the target of the link.
        std::fs::write(path("victim"), "theirs").unwrap();
        std::fs::remove_file(path("osnoise_trace.txt")).unwrap();
        symlink("victim", path("osnoise_trace.txt")).unwrap();
        let (status, said) = vmnoise(folder.path(), "osnoise -c 1 -d 20s -s 1 -t");
        assert_eq!(status, 1, "{said}");
        assert!(said.contains("osnoise_trace.txt"), "{said}");
        assert_eq!(std::fs::read(path("victim")).unwrap(), b"theirs");
    }
}
