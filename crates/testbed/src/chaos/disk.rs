//! A small file system in memory that a test can fill up.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{Mode, OFlags, open};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// Size of the file system. It is several times the size of all recordings that exist at the same
/// time. Each recording of the CPU contains the records of a flooded ring.
const SIZE: &CStr = c"size=512m";
const BALLAST: &str = "ballast";

/// A tmpfs without a mount point. The tmpfs disappears when this process ends in any way.
#[derive(Debug)]
pub(super) struct Disk {
    root: OwnedFd,
}

impl Disk {
    /// Creates the tmpfs. For a moment, mounts it on `folder`, which must be empty.
    pub(super) fn new(folder: &Path) -> Result<Disk> {
        mount("tmpfs", folder, "tmpfs", MountFlags::empty(), SIZE).context("mounting a tmpfs")?;
        let root = open(folder, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        unmount(folder, UnmountFlags::DETACH).context("taking the tmpfs out of its folder")?;
        Ok(Disk { root: root? })
    }

    /// Returns the path of the file `name`. Other processes can open this path too.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        let (pid, fd) = (std::process::id(), self.root.as_raw_fd());
        PathBuf::from(format!("/proc/{pid}/fd/{fd}/{name}"))
    }

    /// Fills the disk completely.
    pub(super) fn fill(&self) -> Result<()> {
        let mut ballast = File::create(self.path(BALLAST))?;
        // Each piece is smaller than the last, so that the last page is filled too.
        let mut piece = vec![0; 1 << 20];
        while !piece.is_empty() {
            match ballast.write(&piece) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => {
                    piece.truncate(piece.len() / 2);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Frees the space that `fill` took.
    pub(super) fn clear(&self) -> Result<()> {
        fs::remove_file(self.path(BALLAST)).context("clearing the disk")
    }
}
