//! A Linux guest that runs with this machine's own KVM, in real time.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use tempfile::TempDir;

use super::apt::DebianSuite;
use super::arguments;
use super::guest_disk;
use super::guest_files::GuestFiles;
use super::guest_image::GuestImage;
use super::inside::{self, CommandOutput};
use super::kernel::DebianKernel;
use super::packaged::{self, DebianProgram};
use super::qemu;
use crate::tied::TiedProcess;
use crate::{placed, schedstat, urgency, vmm};

/// Memory of the guest. It must hold the guest's recordings until they are on the guest's disk.
const MEMORY_MIB: u32 = 1024;
/// Name that QEMU gives the thread of the first vCPU with `debug-threads=on`.
const VCPU: &str = "CPU 0/KVM";

/// A guest that boots or runs. Dropping this value ends the guest and deletes the guest's files.
#[derive(Debug)]
pub struct KvmGuest {
    vmm: TiedProcess,
    files: GuestFiles,
    /// Temporary folder. It must be dropped after the VMM, which writes files there.
    _folder: TempDir,
}

impl KvmGuest {
    /// Boots a guest with one vCPU, this kernel, `vmnoise`, these programs and these Debian
    /// packages. The guest runs the commands in the same way as a lab.
    ///
    /// # Errors
    /// If the kernel cannot be fetched, the guest's files do not fit, or QEMU cannot be started.
    pub fn boot(
        kernel: DebianKernel,
        programs: &[PathBuf],
        packaged: &[DebianProgram],
        commands: &[&str],
    ) -> Result<KvmGuest> {
        let folder = tempfile::tempdir().context("a folder for the guest")?;
        let files = GuestFiles::within(folder.path(), 0);
        let programs = [&[crate::binary()], programs].concat();
        let carried = packaged::files(packaged)?;
        let kernel = (kernel, DebianSuite::Own);
        let image = GuestImage::write(folder.path(), kernel, &programs, &carried, commands);
        let image = image.with_context(|| {
            let folder = folder.path().display();
            format!("the guest's files in {folder} (TMPDIR names another place)")
        })?;
        guest_disk::create(&files.disk)?;
        let mut words = arguments::guest(MEMORY_MIB, &image.vmlinux, &image.initramfs, &files);
        words.extend(["-name", "guest,debug-threads=on"].map(str::to_owned));
        let said = folder.path().join("vmm-said");
        let vmm = TiedProcess::start(Path::new(qemu::PROGRAM), &words, &said)?;
        Ok(KvmGuest {
            vmm,
            files,
            _folder: folder,
        })
    }

    /// Pins the guest's vCPU to this CPU of the machine.
    ///
    /// # Errors
    /// If the guest has ended, or there is no such CPU.
    pub fn pin(&self, cpu: u32) -> Result<()> {
        placed::pin(self.vcpu()?, cpu)
    }

    /// Runs the guest's vCPU at SCHED_FIFO with this priority.
    ///
    /// # Errors
    /// If the guest has ended, or the kernel refuses.
    pub fn set_vcpu_fifo(&self, priority: i32) -> Result<()> {
        urgency::set_thread_fifo(self.vcpu()?, priority)
    }

    /// Runs all current threads of the guest's VMM at SCHED_FIFO with this priority.
    ///
    /// # Errors
    /// If the guest has ended, or the kernel refuses.
    pub fn set_vmm_fifo(&self, priority: i32) -> Result<()> {
        urgency::set_fifo(self.vmm.pid(), priority)
    }

    /// Stops all threads of the guest's VMM (SIGSTOP).
    ///
    /// # Errors
    /// If the guest has ended, or does not stop.
    pub fn stop(&self) -> Result<()> {
        vmm::stop(self.vmm.pid())
    }

    /// Lets the guest's VMM continue (SIGCONT).
    ///
    /// # Errors
    /// If the guest has ended.
    pub fn resume(&self) -> Result<()> {
        vmm::signal(self.vmm.pid(), Signal::CONT)
    }

    fn vcpu(&self) -> Result<u32> {
        let threads = schedstat::threads(self.vmm.pid())?;
        let mut vcpus = threads.iter().filter(|(_, comm)| comm == VCPU);
        let (tid, _) = vcpus.next().context("QEMU has no thread of a vCPU")?;
        Ok(*tid)
    }

    /// Returns whether at least `count` commands of the guest have ended.
    ///
    /// # Errors
    /// If the guest ended before it ran `count` commands.
    pub fn has_reported(&mut self, count: usize) -> Result<bool> {
        // In this order, because the guest may report a result and end between the two reads.
        let ended = self.vmm.ended()?;
        let reported = self.files.reported();
        ensure!(
            reported >= count || ended.is_none(),
            "QEMU ended after {reported} of {count} commands of its guest"
        );
        Ok(reported >= count)
    }

    /// Returns the outputs of the guest's commands that have ended.
    ///
    /// # Errors
    /// If the outputs are not text.
    pub fn outputs(&self) -> Result<Vec<CommandOutput>> {
        inside::outputs(&std::fs::read(&self.files.results).unwrap_or_default())
    }

    /// Returns the first `count` files that the guest wrote to its disk.
    ///
    /// # Errors
    /// If the disk has fewer files.
    pub fn saved(&self, count: usize) -> Result<Vec<Vec<u8>>> {
        guest_disk::load(&self.files.disk, count)
    }

    /// Returns the output of QEMU, followed by the console of the guest's kernel.
    pub fn console(&self) -> String {
        let console = std::fs::read(&self.files.console).unwrap_or_default();
        format!("{}{}", self.vmm.said(), String::from_utf8_lossy(&console))
    }
}
