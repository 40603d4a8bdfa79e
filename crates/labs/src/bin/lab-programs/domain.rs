//! `lab-domain NAME FILE` creates the domain of Xen that the file describes (xl.cfg(5)) under this name, shows
//! its console on stdout, and destroys it when stdin ends: who started this holds the other end, and so the domain
//! ends with that process, whatever ends it. A domain that had the name before is left as it is.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use vmnoise_labs::bed::xl;

/// How often `xl` is asked to find or to destroy the domain, and how long until the next time.
const TRIES: u32 = 20;
const AGAIN: Duration = Duration::from_millis(500);

pub fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, file] = &arguments[..] else {
        bail!("usage: lab-domain NAME FILE");
    };
    // It ends by its stdin: a service manager signals it too, and the domain would stay.
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    ensure!(
        xl::domain(name)?.is_none(),
        "there is a domain {name} already, which is left as it is: take another name"
    );
    let created = tell(&["create", "-e", file])?;
    // One that `xl` began and did not finish may be left too.
    let number = number_of(name)?;
    let shown = match (created.success(), number) {
        (true, Some(number)) => show(number),
        _ => Err(anyhow!("xl create: {created}")),
    };
    let destroyed = number.map_or(Ok(()), |number| destroy(name, number));
    shown.and(destroyed)
}

/// `xl list` may be ended by a signal that all here get, and the domain would stay.
fn number_of(name: &str) -> Result<Option<u32>> {
    for _ in 0..TRIES {
        if let Ok(number) = xl::domain(name) {
            return Ok(number);
        }
        sleep(AGAIN);
    }
    bail!(
        "`xl list` does not tell whether the domain {name} is there: if it is, run `xl destroy {name}`"
    )
}

/// Until stdin ends.
fn show(number: u32) -> Result<()> {
    // What the guest has said before is kept for it. One of an older Xen ends with its stdin, so that stays open.
    let mut console = Command::new("xl")
        .args(["console", "-t", "pv", &number.to_string()])
        .stdin(Stdio::piped())
        .spawn()
        .context("starting xl")?;
    io::stdin().read_to_end(&mut Vec::new())?;
    console.kill()?;
    console.wait()?;
    Ok(())
}

/// It may be ended itself by a signal that all here get, and another `xl` may have the lock.
fn destroy(name: &str, number: u32) -> Result<()> {
    let number_in_words = number.to_string();
    for _ in 0..TRIES {
        match xl::domain(name) {
            Ok(there) if there != Some(number) => return Ok(()),
            _ => tell(&["destroy", &number_in_words])?,
        };
        sleep(AGAIN);
    }
    bail!("the domain {name} is still there: run `xl destroy {number}`")
}

/// What it says goes where errors go: stdout is the console.
fn tell(arguments: &[&str]) -> Result<ExitStatus> {
    let errors = io::stderr().as_fd().try_clone_to_owned()?;
    let mut command = Command::new("xl");
    let command = command.args(arguments).stdin(Stdio::null()).stdout(errors);
    command.status().context("starting xl")
}
