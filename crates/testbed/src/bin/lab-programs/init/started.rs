//! Runs a command with a time limit.

use std::io::{self, Read};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::stuck;

/// Maximum time without output before a command counts as stuck. Commands usually take much less.
const LIMIT: Duration = Duration::from_secs(90);
/// Time within which a killed command must end.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// A running command. The lab waits for its end.
#[derive(Debug)]
pub struct AwaitedCommand {
    command: String,
    pid: Pid,
    heard: Receiver<Heard>,
}

/// Output or end of a command.
#[derive(Debug)]
enum Heard {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    End(io::Result<ExitStatus>),
}

impl AwaitedCommand {
    /// Starts the command.
    pub fn new(command: &str, mut process: Command) -> Result<AwaitedCommand> {
        let mut child = process
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting `{command}`"))?;
        let (send, heard) = channel();
        let pid = Pid::from_child(&child);
        // One thread per pipe, so that a full pipe blocks neither the command nor the other pipe.
        let stdout = child.stdout.take().context("no stdout")?;
        let stderr = child.stderr.take().context("no stderr")?;
        let [to_stdout, to_stderr] = [send.clone(), send.clone()];
        let stdout = std::thread::spawn(move || hear(stdout, Heard::Stdout, &to_stdout));
        let stderr = std::thread::spawn(move || hear(stderr, Heard::Stderr, &to_stderr));
        std::thread::spawn(move || {
            // A reader that has panicked sends nothing more.
            let _ = (stdout.join(), stderr.join());
            send.send(Heard::End(child.wait()))
        });
        Ok(AwaitedCommand {
            command: command.to_owned(),
            pid,
            heard,
        })
    }

    /// Waits until the command ends or is stuck, and calls `report` with its output in both cases.
    pub fn end(self, report: impl FnOnce(Output) -> Result<()>) -> Result<()> {
        let command = &self.command;
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let mut listen = |limit| {
            loop {
                match self.heard.recv_timeout(limit)? {
                    Heard::Stdout(bytes) => stdout.extend(bytes),
                    Heard::Stderr(bytes) => stderr.extend(bytes),
                    Heard::End(status) => return Ok::<_, RecvTimeoutError>(status),
                }
            }
        };
        let mut ended = listen(LIMIT);
        let stuck = ended.is_err();
        if stuck {
            eprintln!("lab-init: `{command}` said nothing for {LIMIT:?}; every thread:");
            stuck::report_threads();
            kill_process(self.pid, Signal::KILL).context("killing it")?;
            ended = listen(LAST_WORDS);
        }
        let status = ended.with_context(|| format!("`{command}` outlived SIGKILL"))??;
        report(Output {
            status,
            stdout,
            stderr,
        })?;
        ensure!(!stuck, "`{command}` was ended");
        Ok(())
    }
}

/// Sends all data of a pipe to `to`, until the pipe ends.
fn hear(mut pipe: impl Read, kind: fn(Vec<u8>) -> Heard, to: &Sender<Heard>) {
    let mut piece = [0; 64 << 10];
    loop {
        match pipe.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(length @ 1..) if to.send(kind(piece[..length].to_vec())).is_ok() => {}
            _ => return,
        }
    }
}
