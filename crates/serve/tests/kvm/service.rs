//! Tests with a service manager, which passes a socket to the server, receives its messages, and
//! ends it.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use crate::harness::{PROGRAM, Serve};

#[test]
fn a_socket_that_was_handed_over_is_served_and_no_other_is_opened() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // By sd_listen_fds(3), the first socket is file 3 of the process in LISTEN_PID.
    let script = format!("exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec {PROGRAM}");
    let serve = Serve::of(
        Command::new("sh")
            .args(["-c", &script])
            .stdin(OwnedFd::from(listener)),
    );
    assert_eq!(serve.port(), port);
    assert_eq!(serve.page("/-/healthy"), "up\n");
}

#[test]
fn the_manager_hears_that_it_is_ready_alive_and_ending() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let hear = || {
        let mut said = [0; 64];
        let bytes = manager.recv(&mut said).unwrap();
        String::from_utf8_lossy(&said[..bytes]).into_owned()
    };
    let serve = Serve::of(
        Command::new(PROGRAM)
            .args(["--listen", "127.0.0.1:0"])
            .env("NOTIFY_SOCKET", &path),
    );
    assert_eq!(hear(), "READY=1");
    assert_eq!([hear(), hear()], ["WATCHDOG=1", "WATCHDOG=1"]);
    assert!(serve.end().success());
    let last = loop {
        match hear().as_str() {
            "WATCHDOG=1" => {}
            other => break other.to_owned(),
        }
    };
    assert_eq!(last, "STOPPING=1");
}
