//! Known causes: programs that take a CPU and log what they took.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::schedstat::{self, Schedstat};

/// One burst as its maker logged it, host TSC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// Reading at its begin.
    pub begin_tsc: u64,
    /// Reading at its end.
    pub end_tsc: u64,
}

/// A running disturber; it ends when dropped.
#[derive(Debug)]
pub struct Disturber {
    child: Child,
    log: Option<PathBuf>,
}

impl Disturber {
    /// A task of ordinary priority that never sleeps, on this CPU.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn busy(cpu: u32) -> Result<Disturber> {
        Disturber::start(&["busy", &cpu.to_string()], None)
    }

    /// A SCHED_FIFO task that burns `burst` at `hz` bursts a second on this CPU and
    /// logs each to `log`.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn bursts(cpu: u32, hz: u32, burst: Duration, log: &Path) -> Result<Disturber> {
        let (cpu, hz) = (cpu.to_string(), hz.to_string());
        let burst_us = burst.as_micros().to_string();
        let path = log.to_str().context("the path of the log is not UTF-8")?;
        Disturber::start(
            &["bursts", &cpu, &hz, &burst_us, path],
            Some(log.to_owned()),
        )
    }

    /// Timer interrupts at this rate on this CPU, and no task that runs.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn timer(cpu: u32, hz: u32) -> Result<Disturber> {
        Disturber::start(&["timer", &cpu.to_string(), &hz.to_string()], None)
    }

    fn start(arguments: &[&str], log: Option<PathBuf>) -> Result<Disturber> {
        let child = Command::new(program()?)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("starting the disturber")?;
        // Long enough to be at work: no test relies on it being so at an instant.
        std::thread::sleep(Duration::from_millis(50));
        Ok(Disturber { child, log })
    }

    /// The name under which results must blame it.
    pub fn source(&self) -> String {
        format!("lab-disturb:{}", self.child.id())
    }

    /// What the scheduler keeps of it.
    ///
    /// # Errors
    /// If it is gone.
    pub fn schedstat(&self) -> Result<Schedstat> {
        schedstat::read(self.child.id(), self.child.id())
    }

    /// Ends it and reads its log.
    ///
    /// # Errors
    /// If it kept none, or the log cannot be read.
    pub fn into_log(mut self) -> Result<Vec<Burst>> {
        self.child.kill()?;
        self.child.wait()?;
        let path = self.log.clone().context("this disturber keeps no log")?;
        let text = std::fs::read_to_string(path)?;
        // The last line may have been cut by the kill.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole
            .lines()
            .map(|line| {
                let (begin, end) = line.split_once(' ').context("a line of the log")?;
                Ok(Burst {
                    begin_tsc: begin.parse()?,
                    end_tsc: end.parse()?,
                })
            })
            .collect()
    }
}

impl Drop for Disturber {
    fn drop(&mut self) {
        // It may have ended already, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `lab-disturb` lies beside the test that asks for it, one folder up.
fn program() -> Result<PathBuf> {
    let mut folder = std::env::current_exe()?;
    while folder.pop() {
        let path = folder.join("lab-disturb");
        if path.is_file() {
            return Ok(path);
        }
    }
    bail!("lab-disturb is not built: run the tests through cargo")
}
