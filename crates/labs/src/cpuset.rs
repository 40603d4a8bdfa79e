//! A cpuset of its own for the process under test, of either version of cgroups.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// A group that is removed again when dropped; whoever is in it must have ended.
#[derive(Debug)]
pub struct Cpuset {
    folder: PathBuf,
}

impl Cpuset {
    /// Creates one that allows these CPUs (a list as in cpuset(7)).
    ///
    /// # Errors
    /// If cgroups are not mounted where systemd has them, or this is not root.
    pub fn create(cpus: &str) -> Result<Cpuset> {
        let v1 = Path::new("/sys/fs/cgroup/cpuset");
        let v2 = Path::new("/sys/fs/cgroup");
        let name = format!("vmnoise-lab-{}", std::process::id());
        let set = if v1.is_dir() {
            let set = Cpuset::at(v1.join(name))?;
            // A group of version 1 takes nobody in before it has memory.
            set.write("cpuset.mems", &read(&v1.join("cpuset.mems"))?)?;
            set
        } else if read(&v2.join("cgroup.controllers"))?.contains("cpuset") {
            let children = v2.join("cgroup.subtree_control");
            if !read(&children)?.contains("cpuset") {
                bail!(
                    "no cpusets below the root group: write +cpuset to {}",
                    children.display()
                );
            }
            Cpuset::at(v2.join(name))?
        } else {
            bail!("this machine has no cpusets: mount cgroup2 on /sys/fs/cgroup");
        };
        set.allow(cpus)?;
        Ok(set)
    }

    fn at(folder: PathBuf) -> Result<Cpuset> {
        fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        Ok(Cpuset { folder })
    }

    /// Moves a process into it.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn take_in(&self, pid: u32) -> Result<()> {
        self.write("cgroup.procs", &pid.to_string())
    }

    /// Changes what it allows, for all that are in it.
    ///
    /// # Errors
    /// If these CPUs do not exist.
    pub fn allow(&self, cpus: &str) -> Result<()> {
        self.write("cpuset.cpus", cpus)
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.folder.join(file);
        fs::write(&path, text).with_context(|| format!("writing {text} to {}", path.display()))
    }
}

impl Drop for Cpuset {
    fn drop(&mut self) {
        // A process leaves its group a moment after it was waited for.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        eprintln!("{} is left behind", self.folder.display());
    }
}

fn read(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(text.trim().to_owned())
}
