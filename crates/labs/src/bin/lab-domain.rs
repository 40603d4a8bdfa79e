//! `lab-domain NAME FILE` creates the domain of Xen that the file describes (xl.cfg(5)) under this name, shows
//! its console on stdout, and destroys it when stdin ends: who started this holds the other end, and so the domain
//! ends with that process, whatever ends it.
#![forbid(unsafe_code)]

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use vmnoise_labs::bed::xl;

/// How often it is tried to destroy the domain, and how long until the next time.
const TRIES: u32 = 20;
const AGAIN: Duration = Duration::from_millis(500);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, file] = &arguments[..] else {
        bail!("usage: lab-domain NAME FILE");
    };
    // It ends by its stdin: a service manager signals it too, and the domain would stay.
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    let shown = show(name, file);
    let destroyed = destroy(name);
    shown.and(destroyed)
}

/// Until stdin ends.
fn show(name: &str, file: &str) -> Result<()> {
    let created = tell(&["create", "-e", file])?;
    ensure!(created.success(), "xl create: {created}");
    // What the guest has said before is kept for it. One of an older Xen ends with its stdin, so that stays open.
    let mut console = Command::new("xl")
        .args(["console", "-t", "pv", name])
        .stdin(Stdio::piped())
        .spawn()
        .context("starting xl")?;
    io::stdin().read_to_end(&mut Vec::new())?;
    console.kill()?;
    console.wait()?;
    Ok(())
}

/// It may be ended itself by a signal that all here get, and another `xl` may have the lock.
fn destroy(name: &str) -> Result<()> {
    for _ in 0..TRIES {
        if let Ok(None) = xl::domain(name) {
            return Ok(());
        }
        tell(&["destroy", name])?;
        sleep(AGAIN);
    }
    bail!("the domain is still there: run `xl destroy {name}`")
}

/// What it says goes where errors go: stdout is the console.
fn tell(arguments: &[&str]) -> Result<ExitStatus> {
    let errors = io::stderr().as_fd().try_clone_to_owned()?;
    let mut command = Command::new("xl");
    let command = command.args(arguments).stdin(Stdio::null()).stdout(errors);
    command.status().context("starting xl")
}
