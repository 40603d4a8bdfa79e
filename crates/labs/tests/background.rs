//! Detects whether a program that runs in parallel to a lab's commands still works.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use vmnoise_labs::lab_program;

/// Starts `sleep` under a name of its own. A link, because a copy could not be executed while
/// another thread's child still has it open for writing.
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
    // It is not waited for, as in a lab, so it stays in /proc.
    let mut ended = sleeper(folder.path(), "0");
    let pid = WaitId::Pid(Pid::from_child(&ended));
    waitid(pid, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
    let (works_now, said) = works();
    ended.wait().unwrap();
    assert!(!works_now && said.contains("lab-sleeper"), "{said}");
}
