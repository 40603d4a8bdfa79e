//! Boot files of a Xen guest.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::super::DebianSuite;
use super::super::apt::call;
use super::super::carried::Carried;
use super::super::initramfs::{self, Contents};
use super::super::inside;
use super::super::kernel::{self, DebianKernel};
use super::domain::XenType;

/// A Debian kernel, and an initramfs that runs commands in the same way as a lab.
#[derive(Debug)]
pub(super) struct XenImage {
    pub kernel: PathBuf,
    pub initramfs: PathBuf,
}

impl XenImage {
    /// Installs the kernel, and writes the initramfs into `folder`.
    pub(super) fn write(
        folder: &Path,
        kind: XenType,
        kernel: DebianKernel,
        programs: &[PathBuf],
        carried: &[Carried],
        commands: &[&str],
    ) -> Result<XenImage> {
        let image = kernel::install(kernel, DebianSuite::Own)?;
        let contents = Contents {
            modules: &[],
            programs,
            carried,
            commands,
            results: inside::XEN_CONSOLE,
        };
        let mut initramfs = folder.join("guest-initramfs");
        initramfs::write(&initramfs, &contents)?;
        let kernel = if kind == XenType::Hvm {
            // The firmware of a PC boots an HVM guest. It needs a bzImage, and reads the initramfs
            // byte by byte.
            call("gzip", &["-9", "guest-initramfs"], folder)?;
            initramfs.set_extension("gz");
            image.vmlinuz
        } else {
            image.vmlinux()?
        };
        Ok(XenImage { kernel, initramfs })
    }
}
