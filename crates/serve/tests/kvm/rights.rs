//! Tests that a running server has the rights in docs/security.md, and no others.

use std::fs;
use std::process::Command;

use vmnoise_testbed::VmnoiseRun;

use crate::harness::{PROGRAM, Serve};

/// CAP_BPF of capabilities(7).
const BPF: u64 = 1 << 39;

/// Returns the value of a line of /proc/PID/task/TID/status.
fn line<'a>(status: &'a str, name: &str) -> &'a str {
    let mut lines = status.lines().filter_map(|line| line.split_once(":\t"));
    lines.find(|(known, _)| *known == name).unwrap().1.trim()
}

#[test]
fn each_thread_has_what_the_table_says_and_serves_on() {
    // These options start all threads except those that write files.
    let serve = Serve::with(&["--exits-on", "1/2"]);
    // The server still finds a later VM, so no right is missing for this.
    let run = VmnoiseRun::microvm(0, &["--duration", "60s"]).unwrap();
    let name = format!("vmnoise:{}", run.pid());
    serve.wait_for(&format!(
        "vmnoise_vcpu_time_seconds_total{{vm=\"{name}\",state=\"running\"}}"
    ));
    // The server can attach the programs for exits and read their events with its remaining rights.
    serve.wait_for(&format!(
        "vmnoise_exits_sampled_seconds_total{{vm=\"{name}\"}}"
    ));
    let threads = fs::read_dir(format!("/proc/{}/task", serve.pid())).unwrap();
    for thread in threads {
        let status = fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        let bits = |name| u64::from_str_radix(line(&status, name), 16).unwrap();
        assert_eq!((bits("CapPrm"), bits("CapEff")), (BPF, BPF), "{status}");
        for none in ["CapInh", "CapBnd", "CapAmb"] {
            assert_eq!(bits(none), 0, "{none}: {status}");
        }
        assert_eq!(line(&status, "NoNewPrivs"), "1", "{status}");
        assert_eq!(line(&status, "Seccomp"), "2", "{status}");
    }
    assert_eq!(serve.page("/-/ready"), "ready\n");
    assert!(serve.end().success());
}

#[test]
fn where_a_filter_refuses_bpf_it_says_who_and_what_helps() {
    let filter = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/without_bpf.py");
    let mut serve = Command::new("python3");
    serve.args([filter, PROGRAM, "--listen", "127.0.0.1:0"]);
    let output = serve.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // The status is the same as on any machine that lacks something.
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("seccomp filter"), "{said}");
    assert!(said.contains("--security-opt seccomp=unconfined"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}
