//! A quota of CPU time for a process, of either version of cgroups.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;

use crate::controller::{Controlled, Version, group_of, hierarchy};

const CONTROLLER: &str = "cpu";
/// The kernel's own default.
const PERIOD_US: u32 = 100_000;

/// A process has no more than a quota while this is there.
#[derive(Debug)]
pub struct Quota {
    group: Controlled,
    pid: u32,
    home: PathBuf,
}

impl Quota {
    /// Whether this machine has quotas.
    ///
    /// # Errors
    /// Says why not.
    pub fn is_there() -> Result<()> {
        hierarchy(CONTROLLER).map(drop)
    }

    /// Gives a process so much of one CPU.
    ///
    /// # Errors
    /// If there are no quotas, this is not root, or the process is gone.
    pub fn of(pid: u32, percent: u32) -> Result<Quota> {
        let quota = Quota {
            group: Controlled::create(CONTROLLER)?,
            pid,
            home: group_of(pid, CONTROLLER)?,
        };
        quota.set(percent)?;
        quota.group.take_in(pid)?;
        Ok(quota)
    }

    /// Changes it.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set(&self, percent: u32) -> Result<()> {
        let quota_us = PERIOD_US / 100 * percent;
        match self.group.version {
            Version::One => {
                self.group
                    .write("cpu.cfs_period_us", &PERIOD_US.to_string())?;
                self.group.write("cpu.cfs_quota_us", &quota_us.to_string())
            }
            Version::Two => self
                .group
                .write("cpu.max", &format!("{quota_us} {PERIOD_US}")),
        }
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // Of a process that has ended nobody is left to go back.
        let _ = fs::write(self.home.join("cgroup.procs"), self.pid.to_string());
    }
}
