//! Checks that `lab-guest works` detects whether a program still works that runs in parallel with a
//! lab's commands.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use vmnoise_testbed::lab_program;

/// Starts `sleep` under another name. The name is a link: a copy could not be executed while a
/// child of another thread still has the copy open for writing.
fn sleeper(folder: &Path, seconds: &str) -> Child {
    let path = folder.join("lab-sleeper");
    if !path.is_symlink() {
        symlink("/bin/sleep", &path).unwrap();
    }
    Command::new(path).arg(seconds).spawn().unwrap()
}

fn works() -> (bool, String) {
    let mut guest = Command::new(lab_program("lab-guest").unwrap());
    let output = guest.args(["works", "lab-sleeper"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.success(), said)
}

#[test]
fn a_load_that_has_ended_is_not_at_work() {
    let folder = tempfile::tempdir().unwrap();
    let mut at_work = sleeper(folder.path(), "100");
    let (works_then, said) = works();
    at_work.kill().unwrap();
    at_work.wait().unwrap();
    assert!(works_then, "{said}");
    // The process is not waited for, as in a lab, so it remains in /proc.
    let mut ended = sleeper(folder.path(), "0");
    let pid = WaitId::Pid(Pid::from_child(&ended));
    waitid(pid, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
    let (works_now, said) = works();
    ended.wait().unwrap();
    assert!(!works_now && said.contains("lab-sleeper"), "{said}");
}
