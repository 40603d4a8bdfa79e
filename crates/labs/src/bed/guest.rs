//! A Linux guest inside a lab: what its lab carries so that QEMU runs there on the lab's
//! own KVM and boots the same kernel once more.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::inside::{GUEST_FIRMWARE, GUEST_INITRAMFS, GUEST_KERNEL};

const QEMU: &str = "qemu-system-x86_64";
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
pub(super) fn carried(vmlinuz: &Path, initramfs: &Path) -> Result<Vec<Carried>> {
    let carry = |inside: &str, from: &Path| Carried {
        inside: inside.into(),
        from: from.to_owned(),
    };
    let qemu = said_by("which", &[QEMU])?;
    let mut files = vec![
        carry(&format!("/bin/{QEMU}"), Path::new(qemu.trim())),
        carry(GUEST_KERNEL, vmlinuz),
        carry(GUEST_INITRAMFS, initramfs),
    ];
    let libraries = said_by("ldd", &[qemu.trim()])?;
    for path in libraries.lines().filter_map(path_of_library) {
        files.push(carry(path, Path::new(path)));
    }
    let folders = said_by(QEMU, &["-L", "help"])?;
    for name in FIRMWARE {
        let mut paths = folders.lines().map(|folder| Path::new(folder).join(name));
        let path = paths.find(|path| path.is_file());
        let path = path.with_context(|| format!("{QEMU} has no {name} (package seabios)"))?;
        files.push(carry(&format!("{GUEST_FIRMWARE}/{name}"), &path));
    }
    Ok(files)
}

/// The file in a line of ldd(1); the vDSO is none.
fn path_of_library(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    words.find(|word| word.starts_with('/'))
}

fn said_by(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("starting {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "`{program} {}`: {said}",
        arguments.join(" ")
    );
    Ok(String::from_utf8(output.stdout)?)
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
