//! Tests the container image. podman builds it, and runs it with the command in docs/serve.md.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use vmnoise_testbed::VmnoiseRun;

use crate::harness::{Metrics, PROGRAM, get};

const CONTAINERFILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../packaging/container/Containerfile"
);
/// Options for rights of the command in docs/serve.md.
const RIGHTS: [&str; 11] = [
    "--cap-drop=all",
    "--cap-add=bpf",
    "--cap-add=perfmon",
    "--user=65534:65534",
    "--security-opt=no-new-privileges",
    "--security-opt=seccomp=unconfined",
    "--read-only",
    "--memory=512m",
    "--pid=host",
    "--network=host",
    "--detach",
];
/// Options for this machine. Its root may not raise limits, and it mounts both kinds of control
/// groups.
const OF_THIS_MACHINE: [&str; 3] = [
    "--runtime=runc",
    "--ulimit=nofile=1024:1024",
    "--ulimit=nproc=1024:1024",
];
const HOST: &str = "127.0.0.1:9753";
/// Time limit for the start of the server, also on a busy machine.
const BACKSTOP: Duration = Duration::from_secs(60);

/// Podman with its own folder. Its container and files are removed when this value is dropped.
struct Podman {
    folder: tempfile::TempDir,
}

impl Podman {
    fn command(&self, arguments: &[&str]) -> Command {
        let inside = |name: &str| self.folder.path().join(name);
        let mut command = Command::new("podman");
        // An overlay file system cannot be mounted on another overlay file system.
        command.args(["--storage-driver", "vfs"]);
        command.arg("--root").arg(inside("images"));
        command.arg("--runroot").arg(inside("state"));
        command.args(arguments).stdin(Stdio::null());
        command
    }

    /// Returns the output of a command that must succeed.
    fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        let _ = self
            .command(&["rm", "--all", "--force", "--time=0"])
            .output();
    }
}

impl Podman {
    fn begin() -> Podman {
        let podman = Podman {
            folder: tempfile::tempdir().unwrap(),
        };
        let context = Path::new(PROGRAM).parent().unwrap().to_string_lossy();
        podman.succeeds(&[
            "build",
            "--quiet",
            "--tag=vmnoise",
            "--file",
            CONTAINERFILE,
            &context,
        ]);
        podman
    }
}

#[test]
fn where_the_profile_of_podman_refuses_bpf_it_says_who_and_what_helps() {
    let podman = Podman::begin();
    let rights = RIGHTS.iter().copied();
    let rights: Vec<&str> = rights
        .filter(|right| !right.contains("seccomp=") && *right != "--detach")
        .collect();
    let image = ["localhost/vmnoise", "--listen=127.0.0.1:0"];
    let arguments = [&["run"], &OF_THIS_MACHINE[..], &rights, &image].concat();
    let output = podman.command(&arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // Newer seccomp profiles allow bpf(2) with CAP_BPF. The command would then serve for ever.
    // Debian 12's profile does not allow it.
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("--security-opt seccomp=unconfined"), "{said}");
}

#[test]
fn an_image_from_scratch_names_a_vm_of_its_host_with_two_capabilities() {
    let podman = Podman::begin();
    let run = VmnoiseRun::microvm(0, &["--duration", "120s"]).unwrap();
    let listen = format!("--listen={HOST}");
    let image = ["localhost/vmnoise", &listen];
    let arguments = [&["run"], &OF_THIS_MACHINE[..], &RIGHTS, &image].concat();
    let container = podman.succeeds(&arguments);
    let name = format!("vmnoise_vcpus{{vm=\"vmnoise:{}\"}}", run.pid());
    let begin = Instant::now();
    loop {
        let text = get(HOST, "/metrics").unwrap_or_default();
        if Metrics::of_text(&text).of(&name) == 1.0 {
            break;
        }
        let said = || podman.command(&["logs", &container]).output();
        assert!(begin.elapsed() < BACKSTOP, "no {name}: {:?}", said());
        sleep(Duration::from_millis(100));
    }
    assert_eq!(get(HOST, "/-/ready").unwrap(), "ready\n");

    let pid = podman.succeeds(&["inspect", "--format={{.State.Pid}}", &container]);
    let status = fs::read_to_string(Path::new("/proc").join(pid).join("status")).unwrap();
    // The same rights as under systemd's unit: CAP_BPF of capabilities(7), an unprivileged user,
    // and its own filter.
    for line in [
        "CapEff:\t0000008000000000",
        "Uid:\t65534\t",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
    ] {
        assert!(status.contains(&format!("\n{line}")), "{line}: {status}");
    }
}
