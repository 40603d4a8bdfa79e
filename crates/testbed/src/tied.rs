//! Processes that do not outlive the thread that started them.

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

/// Time in which a process must end by itself after a request, with all processes that it started.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time between two checks of whether the process has ended.
const LOOK: Duration = Duration::from_millis(10);

/// A process that ends when this value is dropped, or when the thread that started the process
/// ends.
#[derive(Debug)]
pub struct TiedProcess {
    child: Child,
    said: PathBuf,
    /// Whether the process leads its own process group, which contains all processes that it
    /// starts.
    leads: bool,
}

impl TiedProcess {
    /// Starts a program. The program writes its output to the file `said`.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn start<A: AsRef<OsStr>>(
        program: &Path,
        arguments: &[A],
        said: &Path,
    ) -> Result<TiedProcess> {
        let mut command = Command::new(lab_program("lab-tied")?);
        command.arg(program).args(arguments);
        TiedProcess::spawn(command, program, said, false)
    }

    /// Starts a program in `folder` that itself starts processes. Dropping the value first asks the
    /// program to end, so that the program can end these processes and delete its files.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn lead<A: AsRef<OsStr>>(
        program: &Path,
        arguments: &[A],
        folder: &Path,
        said: &Path,
    ) -> Result<TiedProcess> {
        let mut command = Command::new(lab_program("lab-tied")?);
        command.arg(program).args(arguments);
        command.current_dir(folder).process_group(0);
        TiedProcess::spawn(command, program, said, true)
    }

    fn spawn(
        mut command: Command,
        program: &Path,
        said: &Path,
        leads: bool,
    ) -> Result<TiedProcess> {
        let file = File::create(said).with_context(|| said.display().to_string())?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        Ok(TiedProcess {
            child,
            said: said.to_owned(),
            leads,
        })
    }

    /// Returns the process ID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks the process to end (SIGINT).
    ///
    /// # Errors
    /// If the process has ended already.
    pub fn interrupt(&self) -> Result<()> {
        vmm::signal(self.pid(), Signal::INT)
    }

    /// Returns the exit status of the process; `None` while the process runs.
    ///
    /// # Errors
    /// If the state of the process cannot be read.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Asks the whole process group to end. Kills the rest of the group after 5 s.
    fn end_group(&mut self) {
        let group = Pid::from_child(&self.child);
        // If the group is empty, the signal fails.
        let _ = kill_process_group(group, Signal::TERM);
        let asked = Instant::now();
        while asked.elapsed() < PATIENCE && matches!(self.child.try_wait(), Ok(None)) {
            sleep(LOOK);
        }
        let _ = kill_process_group(group, Signal::KILL);
    }

    /// Returns the output of the process so far.
    pub fn said(&self) -> String {
        let said = std::fs::read(&self.said).unwrap_or_default();
        String::from_utf8_lossy(&said).into_owned()
    }
}

impl Drop for TiedProcess {
    fn drop(&mut self) {
        if self.leads {
            self.end_group();
        }
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
