//! A cgroup with one controller, in version 1 or 2 of cgroups.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Folder where systemd mounts cgroups.
const ROOT: &str = "/sys/fs/cgroup";

/// Version of cgroups in which a controller is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// Version 1: one hierarchy for each controller.
    One,
    /// Version 2: one hierarchy for all controllers.
    Two,
}

/// A cgroup that is removed when this value is dropped. Its processes must have ended or left
/// before.
#[derive(Debug)]
pub(crate) struct Controlled {
    folder: PathBuf,
    pub(crate) version: Version,
}

impl Controlled {
    /// Creates a cgroup with this controller.
    ///
    /// # Errors
    /// If no cgroup version has the controller, or this process is not root.
    pub(crate) fn create(controller: &str) -> Result<Controlled> {
        let (root, version) = hierarchy(controller)?;
        let folder = root.join(format!("vmnoise-lab-{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        Ok(Controlled { folder, version })
    }

    /// Moves a process into the cgroup.
    ///
    /// # Errors
    /// If the process has ended.
    pub(crate) fn take_in(&self, pid: u32) -> Result<()> {
        self.write("cgroup.procs", &pid.to_string())
    }

    /// Writes one of the cgroup's files.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.folder.join(file);
        fs::write(&path, text).with_context(|| format!("writing {text} to {}", path.display()))
    }
}

impl Drop for Controlled {
    fn drop(&mut self) {
        // A process leaves its cgroup a moment after its parent has waited for its end.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        eprintln!("{} is left behind", self.folder.display());
    }
}

/// Returns the root folder of the hierarchy that has this controller, and the version of cgroups.
///
/// # Errors
/// If no hierarchy has this controller.
pub(crate) fn hierarchy(controller: &str) -> Result<(PathBuf, Version)> {
    let root = Path::new(ROOT);
    let first = root.join(controller);
    if first.is_dir() {
        return Ok((first, Version::One));
    }
    let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
    if !has(&controllers, controller) {
        bail!("no controller `{controller}` in {ROOT}: mount cgroup2 there");
    }
    let children = root.join("cgroup.subtree_control");
    if !has(&fs::read_to_string(&children)?, controller) {
        let children = children.display();
        bail!(
            "no controller `{controller}` below the root group: write +{controller} to {children}"
        );
    }
    Ok((root.to_owned(), Version::Two))
}

fn has(controllers: &str, controller: &str) -> bool {
    controllers
        .split_ascii_whitespace()
        .any(|it| it == controller)
}

/// Returns the folder of the cgroup that a process is in, in the hierarchy of this controller.
///
/// # Errors
/// If the process has ended, or no cgroup version has the controller.
pub(crate) fn group_of(pid: u32, controller: &str) -> Result<PathBuf> {
    let (root, version) = hierarchy(controller)?;
    // Lines are `4:cpu,cpuacct:/a/group`, or `0::/a/group` in version 2 (cgroups(7)).
    let all = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let group = all.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next()?, fields.next()?);
        let is_it = match version {
            Version::One => controllers.split(',').any(|it| it == controller),
            Version::Two => controllers.is_empty(),
        };
        is_it.then_some(group)
    });
    let group = group.with_context(|| format!("{pid} is in no group of `{controller}`"))?;
    Ok(root.join(group.trim_start_matches('/')))
}
