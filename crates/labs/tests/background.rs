//! Whether what runs beside the commands of a lab is still at work.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use vmnoise_labs::lab_program;

/// `sleep` under a name of its own. A copy that another thread's child still has open for writing would be refused.
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
    // Nobody waits for it, as in a lab: it stays in /proc.
    let mut ended = sleeper(folder.path(), "0");
    let pid = WaitId::Pid(Pid::from_child(&ended));
    waitid(pid, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
    let (works_now, said) = works();
    ended.wait().unwrap();
    assert!(!works_now && said.contains("lab-sleeper"), "{said}");
}
