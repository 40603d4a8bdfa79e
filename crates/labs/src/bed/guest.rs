//! A Linux guest inside a lab: what its lab carries so that QEMU runs there on the lab's
//! own KVM and boots the same kernel once more.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::apt::call;
use super::inside::{GUEST_FIRMWARE, GUEST_INITRAMFS, GUEST_KERNEL};
use super::qemu::{self, Qemu};

/// All that a machine of QEMU reads which boots a kernel with `-kernel`.
const FIRMWARE: [&str; 3] = ["bios-256k.bin", "kvmvapic.bin", "linuxboot_dma.bin"];

/// A file of this machine that a lab carries.
#[derive(Debug)]
pub(super) struct Carried {
    /// Where it lies in the lab, from the root on.
    pub inside: PathBuf,
    /// Where it lies here.
    pub from: PathBuf,
}

/// QEMU with its libraries and firmware, and the kernel and the initramfs of the guest.
pub(super) fn carried(qemu: &Qemu, vmlinuz: &Path, initramfs: &Path) -> Result<Vec<Carried>> {
    let carry = |inside: &str, from: &Path| Carried {
        inside: inside.into(),
        from: from.to_owned(),
    };
    let program = qemu.file()?;
    let mut files = vec![
        carry(&format!("/bin/{}", qemu::PROGRAM), &program),
        carry(GUEST_KERNEL, vmlinuz),
        carry(GUEST_INITRAMFS, initramfs),
    ];
    let libraries = call("ldd", &[&program.to_string_lossy()], Path::new("."))?;
    for path in libraries.lines().filter_map(path_of_library) {
        files.push(carry(path, Path::new(path)));
    }
    for name in FIRMWARE {
        let inside = format!("{GUEST_FIRMWARE}/{name}");
        files.push(carry(&inside, &qemu.firmware(name)?));
    }
    Ok(files)
}

/// The file in a line of ldd(1); the vDSO is none.
fn path_of_library(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    words.find(|word| word.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_a_file() {
        let line = "\tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007f)";
        assert_eq!(
            path_of_library(line),
            Some("/lib/x86_64-linux-gnu/libz.so.1")
        );
        let loader = "\t/lib64/ld-linux-x86-64.so.2 (0x00007f)";
        assert_eq!(path_of_library(loader), Some("/lib64/ld-linux-x86-64.so.2"));
        assert_eq!(path_of_library("\tlinux-vdso.so.1 (0x00007f)"), None);
    }
}
