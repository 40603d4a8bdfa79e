//! What a machine keeps of each Linux guest that it boots on its KVM, and how it waits for one.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::schedstat;

/// Files of a guest, on the machine that boots it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestFiles {
    /// Its disk.
    pub disk: PathBuf,
    /// What its commands said, a line of JSON each.
    pub results: PathBuf,
    /// What its kernel said.
    pub console: PathBuf,
    /// The process of its VMM.
    pub vmm: PathBuf,
}

impl GuestFiles {
    /// In a lab, of the guest of this number: the first is 0.
    pub fn of(guest: u32) -> GuestFiles {
        GuestFiles::within(Path::new("/tmp"), guest)
    }

    /// Likewise, in this folder.
    pub(super) fn within(folder: &Path, guest: u32) -> GuestFiles {
        let file = |what: &str| folder.join(format!("guest-{guest}-{what}"));
        GuestFiles {
            disk: file("disk"),
            results: file("results"),
            console: file("console"),
            vmm: file("vmm"),
        }
    }

    /// In a lab: waits until so many commands of this guest have ended.
    ///
    /// # Errors
    /// If the guest is gone before, with the end of its console.
    pub fn wait(&self, count: usize) -> Result<()> {
        // Each look takes the guest's CPU, where there is one.
        const LOOK: Duration = Duration::from_millis(100);
        while !self.has_reported(count)? {
            sleep(LOOK);
        }
        Ok(())
    }

    /// Whether so many of its commands have ended.
    ///
    /// # Errors
    /// If the guest is gone before, with the end of its console.
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

    /// How many of its commands have ended.
    pub(super) fn reported(&self) -> usize {
        let results = std::fs::read(&self.results).unwrap_or_default();
        results.iter().filter(|byte| **byte == b'\n').count()
    }
}
