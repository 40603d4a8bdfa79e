//! KVM's data about its vCPUs in debugfs: `kvm/PID-FD/vcpuN` (virt/kvm/kvm_main.c and
//! arch/x86/kvm/debugfs.c).

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::Host;
use super::vms::children;

const KVM: &str = "sys/kernel/debug/kvm";

/// Whether KVM's debugfs can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvmDebugfs {
    /// This process can read debugfs.
    Readable,
    /// There is no debugfs: it is not mounted, or this kernel has none.
    Missing,
    /// This process may not read debugfs.
    Forbidden,
}

/// KVM's relation between the time-stamp counter that a vCPU's guest reads, and the counter of the
/// guest's host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuestTsc {
    /// Cycles by which the guest's counter is ahead of the host's scaled counter.
    pub offset_tsc: i64,
    /// The guest's counter runs at `ratio / 2^ratio_frac_bits` of the host's rate.
    pub ratio: u64,
    /// See `ratio`.
    pub ratio_frac_bits: u8,
}

impl GuestTsc {
    /// Returns the same scale with another offset.
    pub fn with_offset(self, offset_tsc: i64) -> GuestTsc {
        GuestTsc { offset_tsc, ..self }
    }
}

/// A vCPU in debugfs.
#[derive(Debug)]
pub(super) struct VcpuFolder {
    /// Number of the vCPU in its VM.
    pub(super) number: u32,
    /// Id of the vCPU's thread.
    pub(super) tid: u32,
    path: PathBuf,
}

impl Host {
    /// Returns whether KVM's debugfs can be read. It exists only while KVM is loaded.
    pub fn kvm_debugfs(&self) -> KvmDebugfs {
        match fs::read_dir(self.root.join(KVM)) {
            Ok(_) => KvmDebugfs::Readable,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => KvmDebugfs::Forbidden,
            Err(_) => KvmDebugfs::Missing,
        }
    }

    /// Returns the clocks of all guests that KVM reports, each with its vCPU's thread and number.
    /// While a vCPU runs a nested guest, debugfs shows the clock of the nested guest, so this vCPU
    /// is left out.
    pub fn guest_tscs(&self) -> Vec<(u32, u32, GuestTsc)> {
        let folders = self.vcpu_folders(|_| true).into_iter();
        folders
            .filter_map(|vcpu| Some((vcpu.tid, vcpu.number, guest_tsc(&vcpu.path)?)))
            .collect()
    }

    /// Returns the vCPUs that have run, of the VMs that are wanted. A VM's name is `PID-FD`: the
    /// thread that created it, and its file.
    pub(super) fn vcpu_folders(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<VcpuFolder> {
        let vms = children(&self.root.join(KVM)).filter(|(vm, _)| is_wanted(vm));
        vms.flat_map(|(_, folder)| children(&folder))
            .filter_map(|(name, path)| {
                let number = name.strip_prefix("vcpu")?.parse().ok()?;
                // 0 until the vCPU has run.
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

/// Returns whether a vCPU runs a guest of its guest. KVM has one active offset and ratio per vCPU,
/// which is then that guest's (nested_vmx_enter_non_root_mode and nested_svm_vmrun; Linux 5.14).
fn in_nested_guest(vcpu: &Path) -> bool {
    number_in::<u64>(&vcpu.join("guest_mode")).is_some_and(|mode| mode != 0)
}

/// Reads the scale of the guest's TSC. The two files exist if the CPU can scale the TSC.
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

    /// Returns the clocks that a vCPU with these files reports.
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
