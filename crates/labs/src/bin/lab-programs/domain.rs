//! `lab-domain NAME FILE` creates the Xen domain that the file describes (xl.cfg(5)) under this
//! name, and shows its console on stdout. It destroys the domain when stdin ends. The process that
//! started it holds the other end of stdin, so the domain ends with that process in any case. A
//! domain that had the name before is left alone.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use vmnoise_labs::bed::xl;

/// Number of attempts to find or to destroy the domain, and the time between them.
const TRIES: u32 = 20;
const AGAIN: Duration = Duration::from_millis(500);

pub fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, file] = &arguments[..] else {
        bail!("usage: lab-domain NAME FILE");
    };
    // Only the end of stdin ends this program. A service manager also sends it signals, and the
    // domain would stay.
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    ensure!(
        xl::domain(name)?.is_none(),
        "there is a domain {name} already, which is left as it is: take another name"
    );
    let created = tell(&["create", "-e", file])?;
    // `xl` may have failed after it created the domain.
    let number = number_of(name)?;
    let shown = match (created.success(), number) {
        (true, Some(number)) => show(number),
        _ => Err(anyhow!("xl create: {created}")),
    };
    let destroyed = number.map_or(Ok(()), |number| destroy(name, number));
    shown.and(destroyed)
}

/// Returns the domain's number. `xl list` is repeated, because a signal to the whole process group
/// may end it, and the domain would stay.
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

/// Shows the console until stdin ends.
fn show(number: u32) -> Result<()> {
    // Xen keeps earlier console output for this reader. An older `xl console` ends with its stdin,
    // so that stays open.
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

/// Destroys the domain. `xl destroy` is repeated, because a signal may end it, or another `xl` may
/// hold the lock.
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

/// Runs `xl` with its output on stderr, because stdout is the console.
fn tell(arguments: &[&str]) -> Result<ExitStatus> {
    let errors = io::stderr().as_fd().try_clone_to_owned()?;
    let mut command = Command::new("xl");
    let command = command.args(arguments).stdin(Stdio::null()).stdout(errors);
    command.status().context("starting xl")
}
