//! A cgroup of version 2 that a test creates for the option `-C` of `vmnoise`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A cgroup that is removed when this value is dropped.
#[derive(Debug)]
pub struct Group(PathBuf);

impl Group {
    /// Creates the cgroup of this name. Returns `None` if cgroup2 is not mounted.
    ///
    /// # Errors
    /// If the cgroup cannot be created.
    pub fn new(name: &str) -> Result<Option<Group>> {
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let mut lines = mounts.lines().map(|line| line.split(' '));
        let root = lines.find_map(|mut words| {
            let place = words.nth(1)?;
            (words.next()? == "cgroup2").then_some(place)
        });
        let Some(root) = root else { return Ok(None) };
        let folder = Path::new(root).join(name);
        fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
        Ok(Some(Group(folder)))
    }

    /// Moves a process into the cgroup.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn take(&self, pid: u32) -> Result<()> {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).context("moving a process")
    }

    /// Makes the cgroup threaded, so that it accepts single threads.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn thread(&self) -> Result<()> {
        fs::write(self.0.join("cgroup.type"), "threaded").context("making a group threaded")
    }

    /// Returns the IDs of the threads in the cgroup, one per line.
    ///
    /// # Errors
    /// If the cgroup is gone.
    pub fn members(&self) -> Result<String> {
        fs::read_to_string(self.0.join("cgroup.threads")).context("reading the group's threads")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The removal fails if a failed test has left threads in the cgroup.
        let _ = fs::remove_dir(&self.0);
    }
}
