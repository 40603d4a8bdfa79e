//! Data that KVM reports about its vCPUs in the debugfs folders `kvm/PID-FD/vcpuN`
//! (virt/kvm/kvm_main.c and arch/x86/kvm/debugfs.c).

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::Host;
use super::vms::children;

const KVM: &str = "sys/kernel/debug/kvm";

/// Result of an attempt to read KVM's folder in debugfs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvmDebugfs {
    /// This process can read debugfs.
    Readable,
    /// debugfs is not mounted, this kernel does not have it, or KVM is not loaded.
    Missing,
    /// This process may not read debugfs.
    Forbidden,
}

/// Relation between the time-stamp counter that a vCPU's guest reads, and the host's counter, as
/// KVM reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuestTsc {
    /// Number of cycles by which the guest's counter is ahead of the host's counter, after scaling.
    pub offset_tsc: i64,
    /// Numerator of the guest counter's rate, relative to the host's: `ratio / 2^ratio_frac_bits`.
    pub ratio: u64,
    /// Number of fractional bits of `ratio`.
    pub ratio_frac_bits: u8,
}

impl GuestTsc {
    /// Returns the same ratio with another offset, in cycles.
    pub fn with_offset(self, offset_tsc: i64) -> GuestTsc {
        GuestTsc { offset_tsc, ..self }
    }
}

/// Folder of a vCPU in debugfs.
#[derive(Debug)]
pub(super) struct VcpuFolder {
    /// Number of the vCPU in its VM.
    pub(super) number: u32,
    /// Thread id of the vCPU.
    pub(super) tid: u32,
    path: PathBuf,
}

impl Host {
    /// Checks whether KVM's folder in debugfs can be read. The folder exists only while KVM is
    /// loaded.
    pub fn kvm_debugfs(&self) -> KvmDebugfs {
        match fs::read_dir(self.root.join(KVM)) {
            Ok(_) => KvmDebugfs::Readable,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => KvmDebugfs::Forbidden,
            Err(_) => KvmDebugfs::Missing,
        }
    }

    /// Returns the TSC relations of all vCPUs that KVM reports. Each entry has the vCPU's thread
    /// id, its number and its relation. While a vCPU runs a nested guest, debugfs shows the
    /// relation of the nested guest. Such a vCPU is left out.
    pub fn guest_tscs(&self) -> Vec<(u32, u32, GuestTsc)> {
        let folders = self.vcpu_folders(|_| true).into_iter();
        folders
            .filter_map(|vcpu| Some((vcpu.tid, vcpu.number, guest_tsc(&vcpu.path)?)))
            .collect()
    }

    /// Returns the vCPUs that have run at least once, of those VMs for which `is_wanted` returns
    /// true. The name of a VM is `PID-FD`: the id of the thread that created the VM, and the file
    /// descriptor.
    pub(super) fn vcpu_folders(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<VcpuFolder> {
        let vms = children(&self.root.join(KVM)).filter(|(vm, _)| is_wanted(vm));
        vms.flat_map(|(_, folder)| children(&folder))
            .filter_map(|(name, path)| {
                let number = name.strip_prefix("vcpu")?.parse().ok()?;
                // The file contains 0 until the vCPU has run for the first time.
                let tid = number_in(&path.join("pid")).filter(|&tid| tid != 0)?;
                Some(VcpuFolder { number, tid, path })
            })
            .collect()
    }
}

fn guest_tsc(vcpu: &Path) -> Option<GuestTsc> {
    if in_nested_guest(vcpu) {
        return None;
    }
    let (ratio, ratio_frac_bits) = scale(vcpu)?;
    let tsc = GuestTsc {
        offset_tsc: number_in(&vcpu.join("tsc-offset"))?,
        ratio,
        ratio_frac_bits,
    };
    (!in_nested_guest(vcpu)).then_some(tsc)
}

/// Returns whether a vCPU runs a nested guest now. KVM has one active offset and ratio per vCPU.
/// They are then those of the nested guest (nested_vmx_enter_non_root_mode and nested_svm_vmrun;
/// Linux 5.14).
fn in_nested_guest(vcpu: &Path) -> bool {
    number_in::<u64>(&vcpu.join("guest_mode")).is_some_and(|mode| mode != 0)
}

/// Returns `ratio` and `ratio_frac_bits` of the guest's TSC. The two files exist only if the CPU
/// can scale the TSC.
fn scale(vcpu: &Path) -> Option<(u64, u8)> {
    let ratio = vcpu.join("tsc-scaling-ratio");
    if matches!(fs::exists(&ratio), Ok(false)) {
        return Some((1, 0));
    }
    let ratio = number_in(&ratio).filter(|&ratio| ratio != 0)?;
    Some((ratio, number_in(&vcpu.join("tsc-scaling-ratio-frac-bits"))?))
}

fn number_in<Number: FromStr>(file: &Path) -> Option<Number> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::tree;

    const VCPU: &str = "sys/kernel/debug/kvm/71-9/vcpu1";

    /// Returns the TSC relations that [`Host::guest_tscs`] finds for a vCPU with these files.
    fn clocks(files: &[(&str, &str)]) -> Vec<(u32, u32, GuestTsc)> {
        let files: Vec<(String, &str)> = [("pid", "81\n")]
            .iter()
            .chain(files)
            .map(|(name, text)| (format!("{VCPU}/{name}"), *text))
            .collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, *text)).collect();
        tree(&files).1.guest_tscs()
    }

    fn unscaled(offset_tsc: i64) -> GuestTsc {
        GuestTsc {
            offset_tsc,
            ratio: 1,
            ratio_frac_bits: 0,
        }
    }

    #[test]
    fn an_offset_may_be_negative_and_a_scale_may_be_none() {
        let far = clocks(&[
            ("tsc-offset", "-9223372036854775808\n"),
            ("guest_mode", "0\n"),
        ]);
        assert_eq!(far, [(81, 1, unscaled(i64::MIN))]);
        assert_eq!(clocks(&[("tsc-offset", "7\n")]), [(81, 1, unscaled(7))]);
        let scaled = clocks(&[
            ("tsc-offset", "-5\n"),
            ("tsc-scaling-ratio", "6442450944\n"),
            ("tsc-scaling-ratio-frac-bits", "32\n"),
        ]);
        let expected = GuestTsc {
            offset_tsc: -5,
            ratio: 3 << 31,
            ratio_frac_bits: 32,
        };
        assert_eq!(scaled, [(81, 1, expected)]);
    }

    #[test]
    fn what_is_damaged_or_another_guests_reports_no_clock() {
        let offset = ("tsc-offset", "5\n");
        for files in [
            &[][..],
            &[("tsc-offset", "5e3\n")],
            &[("tsc-offset", "9223372036854775808\n")],
            &[offset, ("guest_mode", "1\n")],
            &[offset, ("tsc-scaling-ratio", "4294967296\n")],
            &[
                offset,
                ("tsc-scaling-ratio", "0\n"),
                ("tsc-scaling-ratio-frac-bits", "32\n"),
            ],
            &[
                offset,
                ("tsc-scaling-ratio", "1\n"),
                ("tsc-scaling-ratio-frac-bits", "256\n"),
            ],
        ] {
            assert_eq!(clocks(files), [], "{files:?}");
        }
    }

    #[test]
    fn debugfs_that_is_not_mounted_is_missing() {
        let (_root, host) = tree(&[]);
        assert_eq!(host.kvm_debugfs(), KvmDebugfs::Missing);
        assert_eq!(host.guest_tscs(), []);
        let pid = format!("{VCPU}/pid");
        let (_root, host) = tree(&[(&pid, "0\n")]);
        assert_eq!(host.kvm_debugfs(), KvmDebugfs::Readable);
        assert_eq!(host.guest_tscs(), []);
    }
}
