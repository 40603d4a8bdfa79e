//! Boot files of a Linux guest that runs on KVM.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::apt::DebianSuite;
use super::carried::Carried;
use super::initramfs::{self, Contents};
use super::inside;
use super::kernel::{self, DebianKernel};

/// A Debian kernel, and an initramfs that runs commands in the same way as a lab.
#[derive(Debug)]
pub(super) struct GuestImage {
    pub vmlinux: PathBuf,
    pub initramfs: PathBuf,
}

impl GuestImage {
    /// Installs the kernel, and writes the initramfs into `folder`.
    pub(super) fn write(
        folder: &Path,
        (kernel, suite): (DebianKernel, DebianSuite),
        programs: &[PathBuf],
        carried: &[Carried],
        commands: &[&str],
    ) -> Result<GuestImage> {
        let image = kernel::install(kernel, suite)?;
        let initramfs = folder.join("guest-initramfs");
        let contents = Contents {
            modules: &image.modules_of_guest(),
            programs,
            carried,
            commands,
            results: inside::SERIAL_PORT,
        };
        initramfs::write(&initramfs, &contents)?;
        Ok(GuestImage {
            vmlinux: image.vmlinux()?,
            initramfs,
        })
    }
}
