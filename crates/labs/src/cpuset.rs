//! A cpuset of its own for the process under test, of either version of cgroups.

use std::fs;

use anyhow::{Context, Result};

use crate::controller::{Controlled, Version, hierarchy};

const CONTROLLER: &str = "cpuset";

/// A group that is removed again when dropped; whoever is in it must have ended.
#[derive(Debug)]
pub struct Cpuset(Controlled);

impl Cpuset {
    /// Creates one that allows these CPUs (a list as in cpuset(7)).
    ///
    /// # Errors
    /// If cgroups are not mounted where systemd has them, or this is not root.
    pub fn create(cpus: &str) -> Result<Cpuset> {
        let group = Controlled::create(CONTROLLER)?;
        if group.version == Version::One {
            // Such a group takes nobody in before it has memory.
            let all = hierarchy(CONTROLLER)?.0.join("cpuset.mems");
            let all = fs::read_to_string(&all).with_context(|| all.display().to_string())?;
            group.write("cpuset.mems", all.trim())?;
        }
        let set = Cpuset(group);
        set.allow(cpus)?;
        Ok(set)
    }

    /// Moves a process into it.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn take_in(&self, pid: u32) -> Result<()> {
        self.0.take_in(pid)
    }

    /// Changes what it allows, for all that are in it.
    ///
    /// # Errors
    /// If these CPUs do not exist.
    pub fn allow(&self, cpus: &str) -> Result<()> {
        self.0.write("cpuset.cpus", cpus)
    }
}
