//! A small file system of its own, which can be filled up.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{Mode, OFlags, open};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// Room for all that is recorded between two ends of the runs, several times: a flood of the ring is
/// in each recording of the CPU.
const SIZE: &CStr = c"size=512m";
const BALLAST: &str = "ballast";

/// It is in no folder: it is gone with this process, however that ends.
#[derive(Debug)]
pub(super) struct Disk {
    root: OwnedFd,
}

impl Disk {
    /// Makes one, with the help of an empty folder.
    pub(super) fn new(folder: &Path) -> Result<Disk> {
        mount("tmpfs", folder, "tmpfs", MountFlags::empty(), SIZE).context("mounting a tmpfs")?;
        let root = open(folder, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        unmount(folder, UnmountFlags::DETACH).context("taking the tmpfs out of its folder")?;
        Ok(Disk { root: root? })
    }

    /// A file of this name, for other processes too.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        let (pid, fd) = (std::process::id(), self.root.as_raw_fd());
        PathBuf::from(format!("/proc/{pid}/fd/{fd}/{name}"))
    }

    /// Leaves no room on it.
    pub(super) fn fill(&self) -> Result<()> {
        let mut ballast = File::create(self.path(BALLAST))?;
        // In ever smaller pieces: the last page is taken as well.
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

    /// Gives the room back.
    pub(super) fn clear(&self) -> Result<()> {
        fs::remove_file(self.path(BALLAST)).context("clearing the disk")
    }
}
