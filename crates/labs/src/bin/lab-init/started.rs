//! A command at work, and a limit to it.

use std::io;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::stuck;

/// How long a command may take, beyond those before it, until it counts as stuck; no
/// estimate of how long it takes.
const LIMIT: Duration = Duration::from_secs(90);
/// How long one that was killed may take to be gone.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// A command that somebody waits for.
#[derive(Debug)]
pub struct Started {
    command: String,
    pid: Pid,
    output: mpsc::Receiver<io::Result<Output>>,
}

impl Started {
    /// Starts it.
    pub fn new(command: &str, mut process: Command) -> Result<Started> {
        let child = process
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting `{command}`"))?;
        let (send, output) = mpsc::channel();
        let pid = Pid::from_child(&child);
        // A thread of its own, so that a full pipe stops nobody.
        std::thread::spawn(move || send.send(child.wait_with_output()));
        Ok(Started {
            command: command.to_owned(),
            pid,
            output,
        })
    }

    /// Waits for its end, and hands out what it said: all the more if it is stuck.
    pub fn end(self, report: impl FnOnce(Output) -> Result<()>) -> Result<()> {
        let Started {
            command,
            pid,
            output,
        } = self;
        let ended = output.recv_timeout(LIMIT);
        let stuck = ended.is_err();
        if stuck {
            eprintln!("lab-init: `{command}` did not end within {LIMIT:?}; every thread:");
            stuck::report_threads();
            kill_process(pid, Signal::KILL).context("killing it")?;
        }
        let ended = ended.or_else(|_| output.recv_timeout(LAST_WORDS));
        report(ended.with_context(|| format!("`{command}` outlived SIGKILL"))??)?;
        ensure!(!stuck, "`{command}` was ended");
        Ok(())
    }
}
