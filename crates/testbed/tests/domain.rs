//! Tests `lab-domain` with a fake `xl` that logs its commands. A domain must end with the process
//! that started `lab-domain`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use tempfile::TempDir;
use vmnoise_testbed::lab_program;

/// A fake `xl`. After `create` there is one domain, and only the second `destroy` ends it.
const XL: &str = r#"#!/bin/sh
cd "${0%/*}"
case "$1" in create) echo "$1" ;; *) echo "$*" ;; esac >> told
case "$1" in
create) [ "$3" = good ] && echo "one 3" > domains ;;
list) cat domains ;;
console) echo "it boots"; exec sleep 100 ;;
destroy) if [ -e twice ]; then : > domains; else : > twice; fi ;;
esac
"#;

struct Dom0 {
    folder: TempDir,
}

impl Dom0 {
    fn new() -> Dom0 {
        let folder = tempfile::tempdir().unwrap();
        let xl = folder.path().join("xl");
        fs::write(&xl, XL).unwrap();
        fs::set_permissions(&xl, PermissionsExt::from_mode(0o755)).unwrap();
        fs::write(folder.path().join("domains"), "Name ID\nDomain-0 0\n").unwrap();
        Dom0 { folder }
    }

    fn create(&self, file: &str) -> Child {
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new(lab_program("lab-domain").unwrap());
        command
            .args(["one", file])
            .env("PATH", format!("{}:{path}", self.folder.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Adds a domain as if another program had created it.
    fn has(&self, domain: &str) {
        fs::write(self.folder.path().join("domains"), domain).unwrap();
    }

    fn told(&self) -> Vec<String> {
        let told = fs::read_to_string(self.folder.path().join("told")).unwrap();
        told.lines().map(str::to_owned).collect()
    }
}

#[test]
fn a_domain_goes_when_its_holder_does_and_by_no_signal() {
    let dom0 = Dom0::new();
    let mut keeper = dom0.create("good");
    let mut console = BufReader::new(keeper.stdout.take().unwrap());
    let mut line = String::new();
    console.read_line(&mut line).unwrap();
    assert_eq!(line, "it boots\n");
    let signalled = Command::new("kill").arg(keeper.id().to_string()).status();
    assert!(signalled.unwrap().success());
    sleep(Duration::from_millis(200));
    assert!(
        keeper.try_wait().unwrap().is_none(),
        "it is ended by its holder"
    );
    drop(keeper.stdin.take());
    assert!(keeper.wait().unwrap().success());
    let told = [
        "list",
        "create",
        "list",
        "console -t pv 3",
        "list",
        "destroy 3",
        "list",
        "destroy 3",
        "list",
    ];
    assert_eq!(dom0.told(), told);
}

#[test]
fn a_domain_that_cannot_be_created_is_not_waited_for() {
    let dom0 = Dom0::new();
    let output = dom0.create("bad").wait_with_output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("xl create"), "{said}");
    assert_eq!(dom0.told(), ["list", "create", "list"]);
}

#[test]
fn a_domain_of_somebody_else_is_left_as_it_is() {
    let dom0 = Dom0::new();
    dom0.has("one 7");
    let output = dom0.create("good").wait_with_output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("there is a domain one already"), "{said}");
    assert_eq!(dom0.told(), ["list"]);
}
