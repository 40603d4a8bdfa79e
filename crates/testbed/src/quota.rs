//! A quota of CPU time for a process, in version 1 or 2 of cgroups.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;

use crate::controller::{Controlled, Version, group_of, hierarchy};

const CONTROLLER: &str = "cpu";
/// Period of quotas in microseconds, the kernel's default.
const PERIOD_US: u32 = 100_000;

/// Quota of a process. Dropping this value moves the process back to its former cgroup.
#[derive(Debug)]
pub struct Quota {
    group: Controlled,
    pid: u32,
    home: PathBuf,
}

impl Quota {
    /// Checks that this machine has quotas of CPU time.
    ///
    /// # Errors
    /// If the machine has no quotas. The error says why.
    pub fn is_there() -> Result<()> {
        hierarchy(CONTROLLER).map(drop)
    }

    /// Limits a process to this percentage of one CPU.
    ///
    /// # Errors
    /// If there are no quotas, this process is not root, or `pid` has ended.
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

    /// Changes the quota to this percentage of one CPU.
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
        // A process that has ended cannot be moved back.
        let _ = fs::write(self.home.join("cgroup.procs"), self.pid.to_string());
    }
}
