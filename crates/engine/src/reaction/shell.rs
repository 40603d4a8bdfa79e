//! Shell commands during the measurement, with the rights of the user who started vmnoise. A helper
//! process runs the commands. The helper starts before this process gives up its rights. The output
//! of commands goes to stderr, since stdout holds only the result. While vmnoise draws on the
//! terminal, the output is kept in memory.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::Pid;
use rustix::thread::{sched_getaffinity, sched_setaffinity};

/// Longest kept output of one command, in bytes.
const KEPT: usize = 4096;

/// Script of the helper. It reads the number of a command from stdin, runs the command, and writes
/// the exit status back to the same socket. It ends when no process holds the other end of the
/// socket. The commands are fixed at the helper's start, so an attacker who takes over vmnoise can
/// run only these commands. Signals of the terminal end the commands, but not the helper.
const SCRIPT: &str = r#"
trap '' HUP INT TERM QUIT
while read -r number words; do
    case $number in '' | *[!0-9]*) continue ;; esac
    eval "command=\${$number}"
    (
        trap - HUP INT TERM QUIT
        [ "$words" = kept ] && exec 2>&1 || exec >&2
        exec /bin/sh -c "$command" </dev/null
    )
    echo $? >&0
done
"#;

/// Helper that runs the commands it was started with.
#[derive(Debug)]
pub struct Shell {
    commands: Vec<String>,
    helper: Pid,
    /// Stdin of the helper.
    channel: UnixStream,
    /// Stdout of the helper: the kept output of commands.
    said: RefCell<File>,
    /// Bytes of answers received so far.
    answers: RefCell<Vec<u8>>,
    /// Number of commands without an answer.
    unanswered: Cell<usize>,
}

impl Shell {
    /// Starts the helper for these commands.
    ///
    /// # Errors
    /// If there is no shell or no memory.
    pub fn begin(commands: Vec<String>) -> Result<Shell> {
        let (channel, asked) = UnixStream::pair().context("starting a shell")?;
        channel.set_nonblocking(true).context("starting a shell")?;
        let said = memfd_create("said", MemfdFlags::CLOEXEC).context("starting a shell")?;
        let said = File::from(said);
        let helper = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "vmnoise-shell"])
            .args(&commands)
            .stdin(OwnedFd::from(asked))
            .stdout(said.try_clone().context("starting a shell")?)
            .spawn()
            .context("starting /bin/sh")?;
        Ok(Shell {
            commands,
            helper: Pid::from_child(&helper),
            channel,
            said: RefCell::new(said),
            answers: RefCell::default(),
            unanswered: Cell::new(0),
        })
    }

    /// Moves the helper to the CPUs that this thread may use now.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn follow(&self) -> std::io::Result<()> {
        let cpus = sched_getaffinity(None)?;
        Ok(sched_setaffinity(Some(self.helper), &cpus)?)
    }

    /// Asks the helper to start one of the commands, after the earlier commands have ended. `kept`
    /// says whether the command's output is kept in memory.
    ///
    /// # Errors
    /// If the helper is gone.
    pub fn start(&self, command: &str, kept: bool) -> Result<()> {
        let starting = || format!("starting the shell command `{command}`");
        let place = self.commands.iter().position(|known| known == command);
        let number = place
            .context("the helper does not know it")
            .with_context(starting)?
            + 1;
        if kept {
            // Both processes share one file position.
            let mut said = self.said.borrow_mut();
            said.set_len(0)
                .and_then(|()| said.rewind())
                .with_context(starting)?;
        }
        let words = if kept { "kept" } else { "said" };
        (&self.channel)
            .write_all(format!("{number} {words}\n").as_bytes())
            .with_context(starting)?;
        self.unanswered.set(self.unanswered.get() + 1);
        Ok(())
    }

    /// Returns the status of the last command; `None` while it runs.
    ///
    /// # Errors
    /// If the helper is gone.
    pub fn ended(&self) -> Result<Option<ExitStatus>> {
        let mut bytes = [0; 64];
        match (&self.channel).read(&mut bytes) {
            Ok(0) => anyhow::bail!("the shell that runs commands was killed"),
            Ok(count) => self.answers.borrow_mut().extend(&bytes[..count]),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error).context("waiting for a shell command"),
        }
        let mut answers = self.answers.borrow_mut();
        let whole = answers.iter().filter(|byte| **byte == b'\n').count();
        if whole < self.unanswered.get() {
            return Ok(None);
        }
        let answer = String::from_utf8_lossy(&answers).into_owned();
        answers.clear();
        self.unanswered.set(0);
        let code: i32 = answer
            .lines()
            .last()
            .and_then(|code| code.parse().ok())
            .context("the shell that runs commands sends no exit status")?;
        // The status has the form of wait(2). The shell reports a signal as 128 plus its number, so
        // this looks like a command that exited with such a status.
        Ok(Some(ExitStatus::from_raw(code << 8)))
    }

    /// Returns the output lines of the last command, if they were kept.
    pub fn said(&self) -> Vec<String> {
        let mut bytes = [0; KEPT];
        // The file is in memory, so reading cannot fail.
        let count = self.said.borrow().read_at(&mut bytes, 0).unwrap_or(0);
        let text = String::from_utf8_lossy(&bytes[..count]);
        text.lines().map(str::to_owned).collect()
    }
}
