//! Tests that `lab-network` changes nothing on a machine that is not a lab.

use std::fs;
use std::process::Command;

use vmnoise_testbed::lab_program;

#[test]
fn a_machine_s_own_network_and_mounts_are_left_alone() {
    let mounts = || fs::read_to_string("/proc/self/mounts").unwrap();
    let before = mounts();
    let mut flood = Command::new(lab_program("lab-network").unwrap());
    let output = flood.args(["flood", "0", "here"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("also that of the parent process"), "{said}");
    assert_eq!(mounts(), before);
}
