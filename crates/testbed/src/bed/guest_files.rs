//! Files that a machine keeps for each Linux guest that it boots with KVM. Also waits for a guest.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::schedstat;

/// Files of a guest, on the machine that boots it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestFiles {
    /// The guest's disk.
    pub disk: PathBuf,
    /// File with the results of the guest's commands, one line of JSON per command.
    pub results: PathBuf,
    /// File with the console of the guest's kernel.
    pub console: PathBuf,
    /// File with the process ID of the guest's VMM.
    pub vmm: PathBuf,
}

impl GuestFiles {
    /// Returns the files of guest number `guest` in a lab, counted from 0.
    pub fn of(guest: u32) -> GuestFiles {
        GuestFiles::within(Path::new("/tmp"), guest)
    }

    /// Returns the files of guest number `guest` in this folder.
    pub(super) fn within(folder: &Path, guest: u32) -> GuestFiles {
        let file = |what: &str| folder.join(format!("guest-{guest}-{what}"));
        GuestFiles {
            disk: file("disk"),
            results: file("results"),
            console: file("console"),
            vmm: file("vmm"),
        }
    }

    /// Waits in a lab until `count` commands of this guest have ended.
    ///
    /// # Errors
    /// If the guest ends earlier. The error contains the end of the guest's console.
    pub fn wait(&self, count: usize) -> Result<()> {
        // Each check takes CPU time from the guest if the lab has one CPU.
        const LOOK: Duration = Duration::from_millis(100);
        while !self.has_reported(count)? {
            sleep(LOOK);
        }
        Ok(())
    }

    /// Returns whether `count` commands of the guest have ended.
    ///
    /// # Errors
    /// If the guest ended before. The error contains the end of the guest's console.
    pub fn has_reported(&self, count: usize) -> Result<bool> {
        if self.reported() >= count {
            return Ok(true);
        }
        let vmm: Option<u32> = std::fs::read_to_string(&self.vmm)
            .ok()
            .and_then(|pid| pid.parse().ok());
        let gone = vmm.is_some_and(|pid| matches!(schedstat::state(pid, pid), None | Some('Z')));
        if gone && self.reported() < count {
            let console = std::fs::read(&self.console).unwrap_or_default();
            let end = &console[console.len().saturating_sub(2_000)..];
            bail!(
                "the guest is gone after {} of {count} commands: {}",
                self.reported(),
                String::from_utf8_lossy(end)
            );
        }
        Ok(false)
    }

    /// Returns the number of the guest's commands that have ended.
    pub(super) fn reported(&self) -> usize {
        let results = std::fs::read(&self.results).unwrap_or_default();
        results.iter().filter(|byte| **byte == b'\n').count()
    }
}
