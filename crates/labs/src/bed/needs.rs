//! What machines are made of that has to be fetched, looked up before any is booted.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use rustix::fs::statvfs;

use super::apt::{self, Apt};
use super::kernel::{self, Kernel};
use super::packaged::Packaged;
use super::{Suite, qemu, xen};

/// What a machine is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// What emulates it.
    Emulator,
    /// A kernel of the machine's own suite.
    Kernel(Kernel),
    /// The hypervisor, and the programs of Dom0.
    Xen,
    /// The QEMU around an HVM guest.
    DeviceModel,
    /// A program that machines carry.
    Program(Packaged),
}

impl Part {
    /// The package of Debian that stands for it.
    pub fn package(self) -> &'static str {
        match self {
            Part::Emulator => "qemu-system-x86",
            Part::Kernel(kernel) => kernel.meta_package(),
            Part::Xen => xen::META,
            Part::DeviceModel => xen::DEVICE_MODEL,
            Part::Program(packaged) => packaged.package(),
        }
    }
}

/// What is not here yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToFetch {
    /// Packages of Debian.
    pub packages: Vec<String>,
    /// What they take of the disk while they are unpacked.
    pub bytes: u64,
}

/// What has to be fetched for machines of these parts. Fetches nothing.
///
/// # Errors
/// If apt does not know: it has no lists of packages, or old ones.
pub fn to_fetch(parts: &BTreeSet<Part>) -> Result<ToFetch> {
    // What was brought to a machine without apt is looked for when it is booted.
    if !apt::is_here() {
        return Ok(ToFetch::default());
    }
    let own = Apt::of(Suite::Own)?;
    let mut bundles = Vec::new();
    for part in parts {
        match part {
            Part::Emulator => bundles.extend(qemu::bundle()?),
            Part::Kernel(kernel) => bundles.push(kernel::bundle(*kernel, &own)?),
            Part::Xen => bundles.extend(xen::bundles(false)?),
            Part::DeviceModel => bundles.extend(xen::bundles(true)?),
            Part::Program(packaged) => bundles.push(packaged.bundle(&own)?),
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

/// Whether the mirror of this machine's Debian answers.
///
/// # Errors
/// If it does not, with what apt says.
pub fn reach() -> Result<()> {
    apt::reach()
}

/// What is free where all that is fetched is kept.
///
/// # Errors
/// If the folder cannot be made or asked.
pub fn free_bytes() -> Result<u64> {
    let folder = apt::kept();
    let place = || folder.display().to_string();
    std::fs::create_dir_all(&folder).with_context(place)?;
    let disk = statvfs(&folder).with_context(place)?;
    Ok(disk.f_bavail * disk.f_frsize)
}
