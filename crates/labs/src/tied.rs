//! Processes that do not outlive who started them.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::run::lab_program;
use crate::vmm;

/// How long one may take to end by itself, with all that it has started, when it is asked to.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks whether it has.
const LOOK: Duration = Duration::from_millis(10);

/// A process that ends with the thread that started it, whatever ends that, or when it is dropped.
#[derive(Debug)]
pub struct Tied {
    child: Child,
    said: PathBuf,
    /// Whether it has a process group of its own, of what it starts.
    leads: bool,
}

impl Tied {
    /// Starts a program, which says what it has to say into this file.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start<A: AsRef<OsStr>>(program: &Path, arguments: &[A], said: &Path) -> Result<Tied> {
        let mut command = Command::new(lab_program("lab-tied")?);
        command.arg(program).args(arguments);
        Tied::spawn(command, program, said, false)
    }

    /// Starts a program that starts others, in this folder. When it is dropped it is asked to end first, so that it can
    /// take those and its files with it.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn lead<A: AsRef<OsStr>>(
        program: &Path,
        arguments: &[A],
        folder: &Path,
        said: &Path,
    ) -> Result<Tied> {
        let mut command = Command::new(lab_program("lab-tied")?);
        command.arg(program).args(arguments);
        command.current_dir(folder).process_group(0);
        Tied::spawn(command, program, said, true)
    }

    fn spawn(mut command: Command, program: &Path, said: &Path, leads: bool) -> Result<Tied> {
        let file = File::create(said).with_context(|| said.display().to_string())?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        Ok(Tied {
            child,
            said: said.to_owned(),
            leads,
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end (SIGINT).
    ///
    /// # Errors
    /// If it has ended already.
    pub fn interrupt(&self) -> Result<()> {
        vmm::signal(self.pid(), Signal::INT)
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// If that cannot be known.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Lets all of its group end by themselves, and ends those that do not.
    fn end_group(&mut self) {
        let group = Pid::from_child(&self.child);
        // A group of which nobody is left gets no signal, which is as good.
        let _ = kill_process_group(group, Signal::TERM);
        let asked = Instant::now();
        while asked.elapsed() < PATIENCE && matches!(self.child.try_wait(), Ok(None)) {
            sleep(LOOK);
        }
        let _ = kill_process_group(group, Signal::KILL);
    }

    /// What it has said so far.
    pub fn said(&self) -> String {
        let said = std::fs::read(&self.said).unwrap_or_default();
        String::from_utf8_lossy(&said).into_owned()
    }
}

impl Drop for Tied {
    fn drop(&mut self) {
        if self.leads {
            self.end_group();
        }
        // It may have ended already, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
