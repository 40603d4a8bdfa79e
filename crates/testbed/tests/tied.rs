//! Tests programs that start other programs, and end these.

use std::fs;
use std::path::Path;

use vmnoise_testbed::{TiedProcess, processes, vmm};

/// Script that starts another program, which ignores SIGTERM. The script writes a file when it gets
/// SIGTERM itself.
const LEADER: &str = r#"trap "echo asked > asked; exit" TERM
(trap "" TERM; sleep 100; sleep 100) &
echo $! > other
while :; do sleep 0.01; done"#;

#[test]
fn one_that_leads_is_asked_to_end_and_leaves_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    let said = folder.path().join("said");
    let leader = TiedProcess::lead(Path::new("sh"), &["-c", LEADER], folder.path(), &said).unwrap();
    vmm::wait_for("the other", || Ok(read("other").ends_with('\n'))).unwrap();
    let other: u32 = read("other").trim().parse().unwrap();
    drop(leader);
    assert_eq!(read("asked"), "asked\n");
    let is_there = || processes::all().iter().any(|it| it.pid == other);
    vmm::wait_for("its end", || Ok(!is_there())).unwrap();
}
