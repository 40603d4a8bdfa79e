//! Finds the packages of a lab that are not on this machine yet, before any machine is booted.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use rustix::fs::statvfs;

use super::apt::{self, Apt};
use super::kernel::{self, DebianKernel};
use super::packaged::DebianProgram;
use super::{DebianSuite, qemu, xen};

/// A part of a lab that comes from Debian packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BedPart {
    /// The QEMU that emulates the machine.
    Emulator,
    /// A kernel from the suite of the machine that runs the lab.
    Kernel(DebianKernel),
    /// The Xen hypervisor, and the programs of Dom0.
    Xen,
    /// The QEMU in Dom0 that emulates the machine of an HVM guest.
    DeviceModel,
    /// A program that labs carry.
    Program(DebianProgram),
}

impl BedPart {
    /// Returns the name of the part's main Debian package.
    pub fn package(self) -> &'static str {
        match self {
            BedPart::Emulator => "qemu-system-x86",
            BedPart::Kernel(kernel) => kernel.meta_package(),
            BedPart::Xen => xen::META,
            BedPart::DeviceModel => xen::DEVICE_MODEL,
            BedPart::Program(packaged) => packaged.package(),
        }
    }
}

/// Packages that are not on this machine yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToFetch {
    /// Names of the Debian packages.
    pub packages: Vec<String>,
    /// Disk space that the packages need as archives and unpacked, bytes.
    pub bytes: u64,
}

/// Returns the packages for these parts that are not on this machine yet. Does not fetch them.
///
/// # Errors
/// If apt has no package lists, or old ones.
pub fn to_fetch(parts: &BTreeSet<BedPart>) -> Result<ToFetch> {
    // If this machine has no apt, its user has copied the packages to it. The boot then looks for
    // them.
    if !apt::is_here() {
        return Ok(ToFetch::default());
    }
    let own = Apt::of(DebianSuite::Own)?;
    let mut bundles = Vec::new();
    for part in parts {
        match part {
            BedPart::Emulator => bundles.extend(qemu::bundle()?),
            BedPart::Kernel(kernel) => bundles.push(kernel::bundle(*kernel, &own)?),
            BedPart::Xen => bundles.extend(xen::bundles(false)?),
            BedPart::DeviceModel => bundles.extend(xen::bundles(true)?),
            BedPart::Program(packaged) => bundles.push(packaged.bundle(&own)?),
        }
    }
    bundles.retain(|bundle| !bundle.is_here());
    let packages: BTreeSet<String> = bundles.into_iter().flat_map(|it| it.packages).collect();
    let packages: Vec<String> = packages.into_iter().collect();
    let bytes = match packages.is_empty() {
        true => 0,
        false => own.size(&packages)?,
    };
    Ok(ToFetch { packages, bytes })
}

/// Checks that the Debian mirror of this machine answers.
///
/// # Errors
/// If the mirror does not answer. The error contains apt's message.
pub fn reach() -> Result<()> {
    apt::reach()
}

/// Returns the free space of the disk that keeps fetched files, in bytes.
///
/// # Errors
/// If the folder cannot be created or its disk cannot be queried.
pub fn free_bytes() -> Result<u64> {
    let folder = apt::kept();
    let place = || folder.display().to_string();
    std::fs::create_dir_all(&folder).with_context(place)?;
    let disk = statvfs(&folder).with_context(place)?;
    Ok(disk.f_bavail * disk.f_frsize)
}
