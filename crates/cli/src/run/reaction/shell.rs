//! Shell commands that run beside the measurement, with the rights of whoever started vmnoise: a
//! helper runs them that was started before this process gave up its own. What they say goes to
//! stderr: stdout holds the result and nothing else. Where the terminal is not theirs to write on,
//! it is kept.

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

/// What of one command's words is kept, in bytes.
const KEPT: usize = 4096;

/// Is asked on stdin for one of its arguments by its number, and answers there with its status.
/// It ends when nobody is left to ask. It knows its commands from the start: whoever takes over
/// the process that asks can have those run and no others. A terminal's signals are for the
/// commands and not for this one.
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

/// Runs the commands that it was started with.
#[derive(Debug)]
pub struct Shell {
    commands: Vec<String>,
    helper: Pid,
    /// Its stdin.
    channel: UnixStream,
    /// Its stdout: what commands say, where that is kept.
    said: RefCell<File>,
    /// What of its answers has come.
    answers: RefCell<Vec<u8>>,
    /// How many commands it still has to answer for.
    unanswered: Cell<usize>,
}

impl Shell {
    /// Starts the helper for these commands.
    ///
    /// # Errors
    /// If there is no shell, or no memory.
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

    /// Lets it run on the CPUs that this thread may use now.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn follow(&self) -> std::io::Result<()> {
        let cpus = sched_getaffinity(None)?;
        Ok(sched_setaffinity(Some(self.helper), &cpus)?)
    }

    /// Starts one of its commands; `kept` says whether its words are. Those before it end first.
    ///
    /// # Errors
    /// If the helper is gone.
    pub fn start(&self, command: &str, kept: bool) -> Result<()> {
        let starting = || format!("starting the shell command `{command}`");
        let place = self.commands.iter().position(|known| known == command);
        let number = place
            .context("nobody told the helper")
            .with_context(starting)?
            + 1;
        if kept {
            // Both have one place in it.
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

    /// How the last one ended; `None` while it runs.
    ///
    /// # Errors
    /// If the helper is gone.
    pub fn ended(&self) -> Result<Option<ExitStatus>> {
        let mut bytes = [0; 64];
        match (&self.channel).read(&mut bytes) {
            Ok(0) => anyhow::bail!("the shell that runs commands is gone: somebody killed it"),
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
            .context("the shell that runs commands does not say how they end")?;
        // As wait(2) tells it, but for signals: the shell tells one as 128 and its number, as it does a
        // command that ends with such a number by itself.
        Ok(Some(ExitStatus::from_raw(code << 8)))
    }

    /// The lines that the last one said, if they were kept.
    pub fn said(&self) -> Vec<String> {
        let mut bytes = [0; KEPT];
        // It is memory: there is no disk to fail.
        let count = self.said.borrow().read_at(&mut bytes, 0).unwrap_or(0);
        let text = String::from_utf8_lossy(&bytes[..count]);
        text.lines().map(str::to_owned).collect()
    }
}
