//! A shell command that runs beside the measurement. What it says goes to stderr: stdout holds
//! the result and nothing else. Where the terminal is not its to write on, it is kept.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result};
use rustix::fs::{MemfdFlags, memfd_create};

/// What of one command's words is kept, in bytes.
const KEPT: u64 = 4096;

/// One command under way.
#[derive(Debug)]
pub struct Shell {
    command: String,
    child: Child,
    /// What it says, where that is kept.
    said: Option<File>,
}

impl Shell {
    /// Starts it; `kept` says whether its words are.
    ///
    /// # Errors
    /// If there is no shell, or no memory.
    pub fn start(command: &str, kept: bool) -> Result<Shell> {
        let starting = || format!("starting the shell command `{command}`");
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", command]).stdin(Stdio::null());
        let said = match kept {
            true => {
                let file = memfd_create("said", MemfdFlags::CLOEXEC).with_context(starting)?;
                let file = File::from(file);
                shell.stdout(file.try_clone().with_context(starting)?);
                shell.stderr(file.try_clone().with_context(starting)?);
                Some(file)
            }
            false => {
                shell.stdout(std::io::stderr());
                None
            }
        };
        Ok(Shell {
            command: command.to_owned(),
            child: shell.spawn().with_context(starting)?,
            said,
        })
    }

    /// As it was written.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// How it ended; `None` while it runs.
    ///
    /// # Errors
    /// If the kernel does not know it.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("waiting for a shell command")
    }

    /// The lines that it said, if they were kept.
    pub fn said(&mut self) -> Vec<String> {
        let mut text = Vec::new();
        if let Some(file) = &mut self.said
            && file.rewind().is_ok()
        {
            // It is memory: there is no disk to fail.
            let _ = file.take(KEPT).read_to_end(&mut text);
        }
        let text = String::from_utf8_lossy(&text);
        text.lines().map(str::to_owned).collect()
    }
}
