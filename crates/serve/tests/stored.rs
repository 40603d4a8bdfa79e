//! Tests summaries in an object store. Another client reads them.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::harness::{PROGRAM, Serve};
use crate::kvm::summaries::{files, rows};

/// A running object store, and the folder into which it writes its objects at its end.
struct Store {
    child: Child,
    address: String,
}

impl Store {
    fn start(folder: &Path) -> Store {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut child = Command::new("python3")
            .arg(root.join("tests/store.py"))
            .arg(folder)
            .env("PYTHONPATH", root.join("../../target/python"))
            .env("AWS_ACCESS_KEY_ID", "id")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut address = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut address).unwrap();
        let address = address.trim().to_owned();
        Store { child, address }
    }

    /// Ends the store, which writes its objects into the folder.
    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

/// Returns the command of a server that sends summaries to this address. Host names are resolved as
/// for object stores.
fn serve(address: &str) -> Command {
    let mut serve = Command::new(PROGRAM);
    serve
        .args([
            "--listen",
            "127.0.0.1:0",
            "--summaries",
            "s3://fleet/of/ours",
        ])
        .env("AWS_ENDPOINT", address.replace("127.0.0.1", "localhost"))
        .env("AWS_ALLOW_HTTP", "true")
        .env("AWS_ACCESS_KEY_ID", "id")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .env("AWS_REGION", "us-east-1");
    serve
}

pub fn assert_a_store_has_what_was_sent() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start(folder.path());
    let serve = Serve::of(&mut serve(&store.address));
    assert_eq!(serve.page("/-/ready"), "ready\n");
    assert!(serve.end().success());
    store.end();
    let files = files(folder.path());
    assert!(!files.is_empty(), "nothing is in the store");
    for file in &files {
        assert!(
            file.starts_with(folder.path().join("of/ours/hours")),
            "{file:?}"
        );
        assert!(!rows(file).is_empty());
    }
}

pub fn assert_one_that_is_away_costs_no_more_than_its_summaries() {
    // No process listens at this address.
    let serve = Serve::of(serve("http://127.0.0.1:1").stderr(Stdio::piped()));
    assert_eq!(serve.page("/-/ready"), "ready\n");
    let (status, said) = serve.end_and_say();
    assert!(status.success(), "{said}");
    assert!(said.contains("1 summaries were not delivered"), "{said}");
}
