//! Groups the files of KVM that a scan of open files finds by the processes that hold VMs. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::wire::WireFile;
use vmnoise_host::GuestTsc;

/// VMs and vCPUs that one scan of open files found.
#[derive(Debug, Default)]
pub(super) struct VmFiles {
    processes: BTreeMap<u32, Process>,
    /// vCPUs by kernel address. Each vCPU is here once, even if several processes have its file
    /// open.
    vcpus: BTreeMap<u64, WireFile>,
}

/// A process that holds VMs.
#[derive(Debug, Default)]
pub(super) struct Process {
    /// Process id in /proc; 0 if the process is not in this pid namespace.
    pub(super) pid_here: u32,
    /// Smallest descriptor of the process whose file is a VM; `None` if there is none.
    pub(super) fd: Option<u32>,
    /// vCPUs of the process, each with its number, the kernel's thread id, and the thread id in
    /// /proc.
    pub(super) vcpus: BTreeSet<(u32, u32, u32)>,
}

impl VmFiles {
    pub(super) fn new(files: &[WireFile]) -> VmFiles {
        // During a vfork, two processes share their memory and all open files for a moment.
        let mut owners = BTreeMap::new();
        for file in files {
            let runs = file.tgid == file.holder;
            let owner = owners.entry(file.kvm).or_insert((runs, file.holder));
            if runs && !owner.0 {
                *owner = (runs, file.holder);
            }
        }
        let mut all = VmFiles::default();
        for file in files.iter().filter(|it| owners[&it.kvm].1 == it.holder) {
            let process = all.processes.entry(file.holder).or_default();
            process.pid_here = file.holder_here;
            if file.vcpu == 0 {
                process.fd = Some(process.fd.map_or(file.fd, |first| first.min(file.fd)));
            } else if file.tid != 0 {
                let vcpu = (file.number, file.tid, file.tid_here);
                process.vcpus.insert(vcpu);
                all.vcpus.insert(file.vcpu, *file);
            }
        }
        all
    }

    /// Returns the process ids of all processes that hold VMs, as the kernel numbers them.
    pub(super) fn processes(&self) -> impl Iterator<Item = u32> + '_ {
        self.processes.keys().copied()
    }

    pub(super) fn of(&self, process: u32) -> Option<&Process> {
        self.processes.get(&process)
    }

    /// Returns the clocks of the guests. Each has the thread id and the number of its vCPU.
    /// `kvm_module` is the loaded vendor module of KVM.
    pub(super) fn guest_tscs(&self, kvm_module: Option<&str>) -> Vec<(u32, u32, GuestTsc)> {
        let vcpus = self.vcpus.values();
        vcpus
            .filter_map(|file| Some((file.tid, file.number, guest_tsc(file, kvm_module)?)))
            .collect()
    }
}

/// Returns the clock of a guest. The number of fraction bits of its ratio depends on the vendor's
/// module (`tsc_scaling_ratio_frac_bits` in svm_hardware_setup and vmx_hardware_setup). No
/// structure of a vCPU has this number.
fn guest_tsc(file: &WireFile, kvm_module: Option<&str>) -> Option<GuestTsc> {
    let ratio_frac_bits = match (file.ratio, kvm_module) {
        _ if file.knows_tsc == 0 => return None,
        // This CPU does not scale TSCs.
        (1, _) => 0,
        (0, _) => return None,
        (_, Some("kvm_amd")) => 32,
        (_, Some("kvm_intel")) => 48,
        // The module is unknown. Both ratios mean a factor of 1: the first in kvm_amd, the second
        // in kvm_intel.
        (ratio, _) if [1 << 32, 1 << 48].contains(&ratio) => ratio.trailing_zeros() as u8,
        _ => return None,
    };
    Some(GuestTsc {
        offset_tsc: file.offset_tsc.cast_signed(),
        ratio: file.ratio,
        ratio_frac_bits,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const VM: u64 = 0x1000;

    fn vm(holder: u32, fd: u32) -> WireFile {
        WireFile {
            kvm: VM,
            holder,
            holder_here: holder,
            fd,
            ..WireFile::default()
        }
    }

    fn vcpu(holder: u32, number: u32, tid: u32) -> WireFile {
        WireFile {
            vcpu: VM + 8 * u64::from(number + 1),
            number,
            tid,
            tid_here: tid,
            tgid: 71,
            knows_tsc: 1,
            ratio: 1,
            offset_tsc: 5_u64.wrapping_neg(),
            ..vm(holder, 20 + number)
        }
    }

    #[test]
    fn a_vcpu_is_its_threads_whoever_holds_its_file() {
        // The child of a vfork of the VMM is found before the VMM.
        let files = [
            vm(70, 9),
            vcpu(70, 0, 80),
            vm(71, 12),
            vm(71, 9),
            vcpu(71, 0, 80),
            // This vCPU has not run yet, so it has no thread.
            vcpu(71, 1, 0),
        ];
        let found = VmFiles::new(&files);
        assert_eq!(found.processes().collect::<Vec<_>>(), [71]);
        let process = found.of(71).unwrap();
        assert_eq!((process.pid_here, process.fd), (71, Some(9)));
        assert!(process.vcpus.iter().eq(&[(0, 80, 80)]));
        let clock = GuestTsc {
            offset_tsc: -5,
            ratio: 1,
            ratio_frac_bits: 0,
        };
        assert_eq!(found.guest_tscs(Some("kvm_amd")), [(80, 0, clock)]);
    }

    #[test]
    fn a_vm_without_a_vcpu_is_its_holders() {
        let found = VmFiles::new(&[vm(71, 9)]);
        assert_eq!(found.of(71).unwrap().fd, Some(9));
        assert!(found.guest_tscs(None).is_empty());
    }

    #[test]
    fn a_ratio_is_read_as_its_vendor_writes_it_or_not_at_all() {
        let bits = |ratio, module| {
            let file = WireFile {
                ratio,
                ..vcpu(71, 0, 80)
            };
            guest_tsc(&file, module).map(|it| it.ratio_frac_bits)
        };
        assert_eq!(bits(3 << 31, Some("kvm_amd")), Some(32));
        assert_eq!(bits(3 << 47, Some("kvm_intel")), Some(48));
        assert_eq!(bits(1, Some("kvm_amd")), Some(0));
        assert_eq!(bits(1 << 48, Some("kvm_pvm")), Some(48));
        assert_eq!(bits(3 << 47, Some("kvm_pvm")), None);
        assert_eq!(bits(0, Some("kvm_amd")), None);
        let protected = WireFile {
            knows_tsc: 0,
            ..vcpu(71, 0, 80)
        };
        assert_eq!(guest_tsc(&protected, Some("kvm_amd")), None);
    }
}
