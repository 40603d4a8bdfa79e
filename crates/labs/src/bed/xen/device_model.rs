//! What an HVM guest of Xen needs of its Dom0: a QEMU that is its machine, and firmware.

use std::path::Path;

use anyhow::{Context, Result};

use super::super::apt::{self, Apt, Bundle, Suite};
use super::super::carried::{self, Carried};
use super::super::qemu::Qemu;
use super::packages::Xen;

/// Its libraries are those of Xen, and of the QEMU that this machine has.
pub(in super::super) const PACKAGE: &str = "qemu-system-xen";
/// Where Xen looks for it.
const PROGRAM: &str = "/usr/libexec/xen-qemu-system-i386";
/// What it reads, or Xen for it, and where: firmware, the loader of a kernel that is in no
/// file of the guest, and the keyboard, without which it does not start.
const FIRMWARE: [(&str, &str); 3] = [
    ("/usr/share/seabios", "bios-256k.bin"),
    ("/usr/share/qemu", "linuxboot.bin"),
    ("/usr/share/qemu", "keymaps/en-us"),
];

/// All of it. The package is unpacked under `target/lab/`, unless that was done before.
pub(super) fn files(xen: &Xen, qemu: &Qemu) -> Result<Vec<Carried>> {
    let bundle = bundle(xen.folder())?;
    Apt::of(Suite::Own)?.unpack(&bundle)?;
    let folder = bundle.folder;
    let program = folder.join(PROGRAM.trim_start_matches('/'));
    let mut files = carried::libraries(&program, xen.folder())?;
    files.push(Carried::new(PROGRAM, &program));
    // The first that runs in the guest: it puts the firmware where it belongs.
    files.push(xen.file("boot/hvmloader")?);
    for (inside, name) in FIRMWARE {
        let inside = Path::new(inside).join(name);
        let from = qemu.firmware(name)?;
        files.push(Carried { inside, from });
    }
    Ok(files)
}

/// For the Xen that lies in this folder: it has libraries of that very version.
pub(super) fn bundle(xen: &Path) -> Result<Bundle> {
    let version = xen.file_name().context("Xen in no folder")?;
    let folder = format!("{PACKAGE}-for-{}", version.to_string_lossy());
    Ok(Bundle {
        packages: vec![PACKAGE.to_owned()],
        folder: apt::kept().join(folder),
    })
}
