//! A cpuset for the process under test, in version 1 or 2 of cgroups.

use std::fs;

use anyhow::{Context, Result};

use crate::controller::{Controlled, Version, hierarchy};

const CONTROLLER: &str = "cpuset";

/// A cpuset that is removed when this value is dropped. Its processes must have ended before.
#[derive(Debug)]
pub struct Cpuset(Controlled);

impl Cpuset {
    /// Creates a cpuset with these CPUs (a list as in cpuset(7)).
    ///
    /// # Errors
    /// If cgroups are not mounted where systemd has them, or this process is not root.
    pub fn create(cpus: &str) -> Result<Cpuset> {
        let group = Controlled::create(CONTROLLER)?;
        if group.version == Version::One {
            // A cpuset of version 1 accepts no process before it has memory nodes.
            let all = hierarchy(CONTROLLER)?.0.join("cpuset.mems");
            let all = fs::read_to_string(&all).with_context(|| all.display().to_string())?;
            group.write("cpuset.mems", all.trim())?;
        }
        let set = Cpuset(group);
        set.allow(cpus)?;
        Ok(set)
    }

    /// Moves a process into the cpuset.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn take_in(&self, pid: u32) -> Result<()> {
        self.0.take_in(pid)
    }

    /// Changes the allowed CPUs, for all processes in the cpuset.
    ///
    /// # Errors
    /// If one of these CPUs does not exist.
    pub fn allow(&self, cpus: &str) -> Result<()> {
        self.0.write("cpuset.cpus", cpus)
    }
}
