//! The cgroup of the measured process. Only this cgroup has a quota.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::mount::{MountFlags, mount};

/// File with the quota of the cgroup (Documentation/admin-guide/cgroup-v2.rst).
pub(super) const QUOTA: &str = "/sys/fs/cgroup/measured/cpu.max";

const ROOT: &str = "/sys/fs/cgroup";
const MEASURED: &str = "measured";

/// Membership of this process in the cgroup, with all processes that it starts. The membership ends
/// when this value is dropped.
#[derive(Debug)]
pub(super) struct Group;

impl Group {
    /// Creates the cgroup and enters it.
    pub(super) fn enter() -> Result<Group> {
        if !Path::new(ROOT).join("cgroup.procs").exists() {
            mount("cgroup2", ROOT, "cgroup2", MountFlags::empty(), None).context(ROOT)?;
        }
        write("cgroup.subtree_control", "+cpu")?;
        fs::create_dir_all(Path::new(ROOT).join(MEASURED)).context(MEASURED)?;
        write(&format!("{MEASURED}/cgroup.procs"), "0")?;
        Ok(Group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Errors do not matter, because the lab ends soon.
        let _ = write("cgroup.procs", "0");
        let _ = fs::remove_dir(Path::new(ROOT).join(MEASURED));
    }
}

fn write(file: &str, value: &str) -> Result<()> {
    fs::write(Path::new(ROOT).join(file), value)
        .with_context(|| format!("writing {value} to {ROOT}/{file}"))
}
