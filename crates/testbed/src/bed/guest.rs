//! Finds the files that a lab carries for a Linux guest inside it. In the lab, QEMU runs with the
//! lab's own KVM, and boots the same kernel again.

use std::path::Path;

use anyhow::Result;

use super::apt;
use super::carried::{self, Carried};
use super::guest_image::GuestImage;
use super::inside::{GUEST_INITRAMFS, GUEST_KERNEL, KEPT};
use super::kernel::Image;
use super::qemu::{self, Qemu};

/// Firmware that QEMU reads to boot a kernel with `-kernel`.
const FIRMWARE: [&str; 3] = ["bios-256k.bin", "kvmvapic.bin", "pvh.bin"];

/// Returns the kernel and the initramfs of the guest.
pub(super) fn image(image: &GuestImage) -> [Carried; 2] {
    [
        Carried::new(GUEST_KERNEL, &image.vmlinux),
        Carried::new(GUEST_INITRAMFS, &image.initramfs),
    ]
}

/// Returns a kernel with its modules, for a program that boots guests in the lab itself.
pub(super) fn kernel(image: &Image) -> Result<Vec<Carried>> {
    let mut files = image.modules_of_guest();
    files.extend([image.vmlinuz.clone(), image.vmlinux()?]);
    let carried = files.iter().map(|file| {
        let inside = Path::new(KEPT).join(file.strip_prefix(apt::kept())?);
        Ok(Carried::new(&inside.to_string_lossy(), file))
    });
    carried.collect()
}

/// Returns QEMU, its libraries and its firmware, each with its usual path in the lab.
pub(super) fn vmm(qemu: &Qemu) -> Result<Vec<Carried>> {
    let program = qemu.file()?;
    let mut files = vec![Carried::new(
        &format!("/usr/bin/{}", qemu::PROGRAM),
        &program,
    )];
    files.extend(carried::libraries(&program, Path::new("/"))?);
    for name in FIRMWARE {
        let inside = format!("/usr/share/qemu/{name}");
        files.push(Carried::new(&inside, &qemu.firmware(name)?));
    }
    Ok(files)
}
