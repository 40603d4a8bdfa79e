//! Control groups (cgroups(7), version 2) in which polling threads run.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Reasons why threads cannot run in a control group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No file system of the type cgroup2 is mounted.
    #[error(
        "no cgroup2 is mounted, so there is no group `{0}`: `mount -t cgroup2 none /sys/fs/cgroup` as root, or run without -C"
    )]
    NotMounted(String),
    /// The folder of the control group does not exist.
    #[error("no control group {}; make it with mkdir, or name one that is there", .0.display())]
    NoSuchGroup(PathBuf),
    /// The kernel refused a write to a file of the control group.
    #[error("cannot write {}: {}; {}", file.display(), io::Error::from_raw_os_error(*errno), remedy(*errno))]
    Refused {
        /// The file that vmnoise tried to write.
        file: PathBuf,
        /// The kernel's error number.
        errno: i32,
    },
}

/// Returns the remedy for an error number of Documentation/admin-guide/cgroup-v2.rst.
fn remedy(errno: i32) -> &'static str {
    match errno {
        libc::EBUSY => {
            "a group that shares controllers with groups below it holds no process: name one of those below"
        }
        libc::EOPNOTSUPP => {
            "a threaded group takes threads of its own threaded domain only: first move your shell to the group above it (`echo $$ > cgroup.procs` there)"
        }
        libc::EACCES | libc::EPERM => "run as root, or in a group that was delegated to you",
        libc::ENOSPC => {
            "the group has no CPU or no memory node: write cpuset.cpus and cpuset.mems first"
        }
        _ => "see cgroups(7)",
    }
}

/// A control group that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    folder: PathBuf,
}

impl Cgroup {
    /// Returns the group with this name below the mount point of cgroup2. The name may begin with a
    /// slash.
    ///
    /// # Errors
    /// [`Error::NotMounted`] and [`Error::NoSuchGroup`].
    pub fn find(name: &str) -> Result<Cgroup, Error> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mount = mount_point(&mounts).ok_or_else(|| Error::NotMounted(name.to_owned()))?;
        Cgroup::below(mount, name)
    }

    fn below(mount: &Path, name: &str) -> Result<Cgroup, Error> {
        let folder = mount.join(name.trim_start_matches('/'));
        if folder.join("cgroup.procs").is_file() {
            Ok(Cgroup { folder })
        } else {
            Err(Error::NoSuchGroup(folder))
        }
    }

    /// Returns whether single threads can move to this group. Other groups accept only whole
    /// processes.
    pub fn is_threaded(&self) -> bool {
        self.line("cgroup.type").as_deref() == Some("threaded")
    }

    /// Returns the CPUs that the members of the group may use, in the kernel's list format; `None`
    /// if the group has no cpuset controller.
    pub fn cpus(&self) -> Option<String> {
        self.line("cpuset.cpus.effective")
    }

    /// Moves the calling process with all its threads into the group.
    ///
    /// # Errors
    /// [`Error::Refused`] if the kernel refuses the move.
    pub fn admit_process(&self) -> Result<(), Error> {
        self.admit("cgroup.procs")
    }

    /// Moves only the calling thread into the group.
    ///
    /// # Errors
    /// [`Error::Refused`], also if the group is not threaded.
    pub fn admit_thread(&self) -> Result<(), Error> {
        self.admit("cgroup.threads")
    }

    /// Writes "0" to the file. The kernel takes it for the calling process or thread.
    fn admit(&self, file: &str) -> Result<(), Error> {
        let file = self.folder.join(file);
        fs::write(&file, "0").map_err(|error| Error::Refused {
            file,
            errno: error.raw_os_error().unwrap_or(0),
        })
    }

    fn line(&self, file: &str) -> Option<String> {
        let text = fs::read_to_string(self.folder.join(file)).ok()?;
        Some(text.trim().to_owned())
    }
}

/// Returns the mount point of cgroup2, given the text of /proc/mounts.
fn mount_point(mounts: &str) -> Option<&Path> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let place = words.next()?;
        (words.next()? == "cgroup2").then(|| Path::new(place))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_version_is_found_beside_the_first() {
        let mounts = "cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\n\
                      none /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(
            mount_point(mounts),
            Some(Path::new("/sys/fs/cgroup/unified"))
        );
        assert_eq!(mount_point("cgroup2 /x tmpfs rw 0 0\n"), None);
    }

    #[test]
    fn a_group_is_a_folder_of_the_kernel() {
        let root = std::env::temp_dir();
        let missing = Cgroup::below(&root, "/no/such").unwrap_err().to_string();
        assert!(missing.contains("no/such; make it with mkdir"), "{missing}");
    }

    #[test]
    fn a_refusal_names_the_file_and_the_remedy() {
        let error = Error::Refused {
            file: "/g/cgroup.threads".into(),
            errno: libc::EOPNOTSUPP,
        };
        let text = error.to_string();
        assert!(text.contains("/g/cgroup.threads"), "{text}");
        assert!(text.contains("echo $$ > cgroup.procs"), "{text}");
    }
}
