//! Processes that do not outlive who started them.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result};
use rustix::process::Signal;

use crate::run::lab_program;
use crate::vmm;

/// A process that ends with the thread that started it, whatever ends that, or when it is dropped.
#[derive(Debug)]
pub struct Tied {
    child: Child,
    said: PathBuf,
}

impl Tied {
    /// Starts a program, which says what it has to say into this file.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start<A: AsRef<OsStr>>(program: &Path, arguments: &[A], said: &Path) -> Result<Tied> {
        let file = File::create(said).with_context(|| said.display().to_string())?;
        let child = Command::new(lab_program("lab-tied")?)
            .arg(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        Ok(Tied {
            child,
            said: said.to_owned(),
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

    /// What it has said so far.
    pub fn said(&self) -> String {
        let said = std::fs::read(&self.said).unwrap_or_default();
        String::from_utf8_lossy(&said).into_owned()
    }
}

impl Drop for Tied {
    fn drop(&mut self) {
        // It may have ended already, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
