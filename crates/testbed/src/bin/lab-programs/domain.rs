//! `lab-domain NAME FILE` creates the Xen domain that FILE describes (xl.cfg(5)) under this name,
//! and shows the domain's console on stdout. It destroys the domain when stdin ends. The process
//! that started `lab-domain` has the other end of stdin, so the domain ends with this process in
//! any case. If a domain of this name exists before, `lab-domain` fails and does not touch that
//! domain.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use vmnoise_testbed::bed::xl;

/// Maximum number of attempts to find or to destroy the domain.
const TRIES: u32 = 20;
const AGAIN: Duration = Duration::from_millis(500);

pub fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, file] = &arguments[..] else {
        bail!("usage: lab-domain NAME FILE");
    };
    // Only the end of stdin ends this program. A service manager may also send signals, after which
    // the domain would remain.
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

/// Returns the domain's number; `None` if there is no such domain. Repeats `xl list` if it fails: a
/// signal to the whole process group may end `xl list`, and then the domain would remain.
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

/// Shows the domain's console on stdout until stdin ends.
fn show(number: u32) -> Result<()> {
    // Xen keeps earlier console output until this reader starts. An older `xl console` ends when
    // its stdin ends, so its stdin stays open.
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

/// Destroys the domain. Repeats `xl destroy`, because a signal may end `xl`, or another `xl` may
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

/// Runs `xl` with its output on stderr, because stdout shows the console.
fn tell(arguments: &[&str]) -> Result<ExitStatus> {
    let errors = io::stderr().as_fd().try_clone_to_owned()?;
    let mut command = Command::new("xl");
    let command = command.args(arguments).stdin(Stdio::null()).stdout(errors);
    command.status().context("starting xl")
}
