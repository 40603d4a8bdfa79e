//! The command as a process: start, wait, and pass on the user's signals.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpgrp, kill_process, waitid};
use rustix::termios::tcgetpgrp;
use thiserror::Error;
use vmnoise_console::{interrupt, say};
use vmnoise_views::ProcessEnd;

/// Interval at which user signals are checked while BPF follows the command.
pub const SELDOM: Duration = Duration::from_millis(200);
/// Interval at which user signals and /proc are checked without BPF.
pub const OFTEN: Duration = Duration::from_millis(20);

/// Error of a command that cannot be started.
#[derive(Debug, Error)]
#[error("{name} cannot be run: {why}; write the command after `--`, as you would in a shell")]
pub struct CannotStart {
    name: String,
    #[source]
    why: io::Error,
}

impl CannotStart {
    /// Returns the exit status that env(1), nohup(1) and timeout(1) use for this error.
    pub fn code(&self) -> u8 {
        match self.why.kind() {
            io::ErrorKind::NotFound => 127,
            _ => 126,
        }
    }
}

/// Running command.
pub struct RunningCommand {
    child: Child,
    begin: Instant,
}

impl RunningCommand {
    /// Starts the command from the calling thread.
    pub fn new(command: &[OsString]) -> Result<RunningCommand> {
        let (program, arguments) = command.split_first().context("there is no command")?;
        let begin = Instant::now();
        let child = Command::new(program).args(arguments).spawn();
        let child = child.map_err(|why| CannotStart {
            name: say::name_of(Path::new(program)),
            why,
        })?;
        Ok(RunningCommand { child, begin })
    }

    /// Waits for the end of the command; returns its exit status and its wall-clock time in ns.
    /// Calls `look` with the process id at the interval `each`, and once after the end, while /proc
    /// still has the process.
    pub fn end(
        &mut self,
        each: Duration,
        mut look: impl FnMut(u32) + Send,
    ) -> Result<(ProcessEnd, u64)> {
        let number = self.child.id();
        let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
        let pid = pid.context("reading the process id of the command")?;
        let has_ended = AtomicBool::new(false);
        let wall_ns = thread::scope(|scope| -> Result<u64> {
            let watcher = scope.spawn(|| {
                let mut told = None;
                while !has_ended.load(Relaxed) {
                    let to_tell = to_tell();
                    if to_tell != told {
                        // The command may already have ended, by itself or by a signal of the
                        // terminal.
                        let _ = to_tell.map(|signal| kill_process(pid, signal));
                        told = to_tell;
                    }
                    look(number);
                    thread::park_timeout(each);
                }
                look(number);
            });
            let ended = wait_and_keep(pid);
            let wall_ns = u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
            has_ended.store(true, Relaxed);
            watcher.thread().unpark();
            ended.map(|()| wall_ns)
        })?;
        let status = self.child.wait().context("waiting for the command")?;
        Ok((ProcessEnd::from(status), wall_ns))
    }
}

/// Returns the signal to pass on to the command: the signal that this process received, or SIGTERM
/// if it received a second one. `None` if no signal came, or if the terminal sent Ctrl-C to the
/// command too.
fn to_tell() -> Option<Signal> {
    let first = interrupt::asked_by().and_then(Signal::from_named_raw)?;
    match interrupt::was_asked_again() {
        true => Some(Signal::TERM),
        false if first == Signal::INT && is_in_foreground() => None,
        false => Some(first),
    }
}

/// Returns whether Ctrl-C on the terminal reaches this process. If so, it also reaches the command,
/// which is in the same process group.
fn is_in_foreground() -> bool {
    let terminal = File::open("/dev/tty");
    terminal.is_ok_and(|it| tcgetpgrp(it).is_ok_and(|group| group == getpgrp()))
}

/// Waits until the process has ended, and leaves it in /proc.
fn wait_and_keep(pid: Pid) -> Result<()> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    loop {
        match waitid(WaitId::Pid(pid), options) {
            Err(rustix::io::Errno::INTR) => {}
            ended => return ended.map(|_| ()).context("waiting for the command"),
        }
    }
}
