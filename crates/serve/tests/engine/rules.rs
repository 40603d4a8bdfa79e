//! Prometheus' own tool tests our rules with the cases that are packaged next to them.

use std::process::Command;

use vmnoise_testbed::bed::DebianProgram;

use crate::harness::RULES;

#[test]
fn alerts_come_when_they_have_to_and_not_before() {
    let promtool = DebianProgram::Prometheus
        .programs()
        .unwrap()
        .join("promtool");
    let cases = RULES.replace(".rules.yml", ".rules.test.yml");
    let output = Command::new(promtool)
        .args(["test", "rules", &cases])
        .output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("SUCCESS"), "{said}");
}
