//! A Linux guest inside a lab: what its lab carries so that QEMU runs there on the lab's
//! own KVM and boots the same kernel once more.

use std::path::Path;

use anyhow::Result;

use super::carried::{self, Carried};
use super::inside::{GUEST_FIRMWARE, GUEST_INITRAMFS, GUEST_KERNEL};
use super::qemu::{self, Qemu};

/// All that a machine of QEMU reads which boots a kernel with `-kernel`.
const FIRMWARE: [&str; 3] = ["bios-256k.bin", "kvmvapic.bin", "pvh.bin"];

/// QEMU with its libraries and firmware, and the kernel and the initramfs of the guest.
pub(super) fn carried(qemu: &Qemu, vmlinux: &Path, initramfs: &Path) -> Result<Vec<Carried>> {
    let program = qemu.file()?;
    let mut files = vec![
        Carried::new(&format!("/bin/{}", qemu::PROGRAM), &program),
        Carried::new(GUEST_KERNEL, vmlinux),
        Carried::new(GUEST_INITRAMFS, initramfs),
    ];
    files.extend(carried::libraries(&program, Path::new("/"))?);
    for name in FIRMWARE {
        let inside = format!("{GUEST_FIRMWARE}/{name}");
        files.push(Carried::new(&inside, &qemu.firmware(name)?));
    }
    Ok(files)
}
