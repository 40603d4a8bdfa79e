//! Files that Dom0 needs for an HVM guest of Xen: the QEMU that emulates the guest's machine, and
//! firmware.

use std::path::Path;

use anyhow::{Context, Result};

use super::super::apt::{self, Apt, Bundle, DebianSuite};
use super::super::carried::{self, Carried};
use super::super::qemu::Qemu;
use super::packages::Xen;

/// Package of this QEMU. Its libraries come from Xen's packages, and from the QEMU of this machine.
pub(in super::super) const PACKAGE: &str = "qemu-system-xen";
/// Path at which Xen looks for this QEMU.
const PROGRAM: &str = "/usr/libexec/xen-qemu-system-i386";
/// Folders and files that QEMU or Xen reads: the firmware, the loader for a kernel outside the
/// guest's disks, and the keyboard layout. QEMU does not start without the keyboard layout.
const FIRMWARE: [(&str, &str); 3] = [
    ("/usr/share/seabios", "bios-256k.bin"),
    ("/usr/share/qemu", "linuxboot.bin"),
    ("/usr/share/qemu", "keymaps/en-us"),
];

/// Returns all files of the device model. Unpacks the package under `target/lab/` if it is not
/// unpacked yet.
pub(super) fn files(xen: &Xen, qemu: &Qemu) -> Result<Vec<Carried>> {
    let bundle = bundle(xen.folder())?;
    Apt::of(DebianSuite::Own)?.unpack(&bundle)?;
    let folder = bundle.folder;
    let program = folder.join(PROGRAM.trim_start_matches('/'));
    let mut files = carried::libraries(&program, xen.folder())?;
    files.push(Carried::new(PROGRAM, &program));
    // This program runs first in the guest, and puts the firmware into the guest's memory.
    files.push(xen.file("boot/hvmloader")?);
    for (inside, name) in FIRMWARE {
        let inside = Path::new(inside).join(name);
        let from = qemu.firmware(name)?;
        files.push(Carried { inside, from });
    }
    Ok(files)
}

/// Returns the package for the Xen in this folder. The package's libraries must have exactly the
/// version of this Xen.
pub(super) fn bundle(xen: &Path) -> Result<Bundle> {
    let version = xen.file_name().context("Xen in no folder")?;
    let folder = format!("{PACKAGE}-for-{}", version.to_string_lossy());
    Ok(Bundle {
        packages: vec![PACKAGE.to_owned()],
        folder: apt::kept().join(folder),
    })
}
