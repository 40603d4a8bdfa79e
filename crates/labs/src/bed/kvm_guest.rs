//! A Linux guest on this machine's own KVM, in real time.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use tempfile::TempDir;

use super::apt::Suite;
use super::arguments;
use super::guest_disk;
use super::guest_files::GuestFiles;
use super::guest_image::GuestImage;
use super::inside::{self, CommandOutput};
use super::kernel::Kernel;
use super::packaged::{self, Packaged};
use super::qemu;
use crate::tied::Tied;
use crate::{placed, schedstat, urgency, vmm};

/// Its recordings are in memory until they are on its disk.
const MEMORY_MIB: u32 = 1024;
/// What QEMU calls the thread of the first vCPU, given `debug-threads=on`.
const VCPU: &str = "CPU 0/KVM";

/// One that boots or runs. Nothing of it is left when it is dropped.
#[derive(Debug)]
pub struct KvmGuest {
    vmm: Tied,
    files: GuestFiles,
    /// Goes after the VMM that writes there.
    _folder: TempDir,
}

impl KvmGuest {
    /// Boots one of one vCPU with this kernel, `vmnoise` and these programs, some of them Debian's, which runs these
    /// commands as a lab does.
    ///
    /// # Errors
    /// If the kernel cannot be had, there is no room for its files, or QEMU cannot be started.
    pub fn boot(
        kernel: Kernel,
        programs: &[PathBuf],
        packaged: &[Packaged],
        commands: &[&str],
    ) -> Result<KvmGuest> {
        let folder = tempfile::tempdir().context("a folder for the guest")?;
        let files = GuestFiles::within(folder.path(), 0);
        let programs = [&[crate::binary()], programs].concat();
        let carried = packaged::files(packaged)?;
        let kernel = (kernel, Suite::Own);
        let image = GuestImage::write(folder.path(), kernel, &programs, &carried, commands);
        let image = image.with_context(|| {
            let folder = folder.path().display();
            format!("the guest's files in {folder} (TMPDIR names another place)")
        })?;
        guest_disk::create(&files.disk)?;
        let mut words = arguments::guest(MEMORY_MIB, &image.vmlinux, &image.initramfs, &files);
        words.extend(["-name", "guest,debug-threads=on"].map(str::to_owned));
        let said = folder.path().join("vmm-said");
        let vmm = Tied::start(Path::new(qemu::PROGRAM), &words, &said)?;
        Ok(KvmGuest {
            vmm,
            files,
            _folder: folder,
        })
    }

    /// Lets its vCPU run on this CPU of the machine and no other.
    ///
    /// # Errors
    /// If it is gone, or there is no such CPU.
    pub fn pin(&self, cpu: u32) -> Result<()> {
        placed::pin(self.vcpu()?, cpu)
    }

    /// Lets its vCPU run at SCHED_FIFO with this priority.
    ///
    /// # Errors
    /// If it is gone, or the kernel refuses.
    pub fn set_vcpu_fifo(&self, priority: i32) -> Result<()> {
        urgency::set_thread_fifo(self.vcpu()?, priority)
    }

    /// Likewise, all threads that its VMM has now.
    ///
    /// # Errors
    /// If it is gone, or the kernel refuses.
    pub fn set_vmm_fifo(&self, priority: i32) -> Result<()> {
        urgency::set_fifo(self.vmm.pid(), priority)
    }

    /// Stops it, with all of its threads.
    ///
    /// # Errors
    /// If it is gone, or does not stop.
    pub fn stop(&self) -> Result<()> {
        vmm::stop(self.vmm.pid())
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// If it is gone.
    pub fn resume(&self) -> Result<()> {
        vmm::signal(self.vmm.pid(), Signal::CONT)
    }

    fn vcpu(&self) -> Result<u32> {
        let threads = schedstat::threads(self.vmm.pid())?;
        let mut vcpus = threads.iter().filter(|(_, comm)| comm == VCPU);
        let (tid, _) = vcpus.next().context("QEMU has no thread of a vCPU")?;
        Ok(*tid)
    }

    /// Whether so many of its commands have ended.
    ///
    /// # Errors
    /// If it is gone before.
    pub fn has_reported(&mut self, count: usize) -> Result<bool> {
        // In this order: it may report and be gone between two looks.
        let ended = self.vmm.ended()?;
        let reported = self.files.reported();
        ensure!(
            reported >= count || ended.is_none(),
            "QEMU ended after {reported} of {count} commands of its guest"
        );
        Ok(reported >= count)
    }

    /// What its commands said that have ended.
    ///
    /// # Errors
    /// If that is no text.
    pub fn outputs(&self) -> Result<Vec<CommandOutput>> {
        inside::outputs(&std::fs::read(&self.files.results).unwrap_or_default())
    }

    /// What it has put on its disk, so many files.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn saved(&self, count: usize) -> Result<Vec<Vec<u8>>> {
        guest_disk::load(&self.files.disk, count)
    }

    /// What its kernel said, after what QEMU did.
    pub fn console(&self) -> String {
        let console = std::fs::read(&self.files.console).unwrap_or_default();
        format!("{}{}", self.vmm.said(), String::from_utf8_lossy(&console))
    }
}
