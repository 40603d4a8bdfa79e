//! Checks that a vCPU's exits belong to the guest at the other end, and keeps the clock of that
//! guest.

use std::collections::BTreeMap;

use vmnoise_events::{Vcpu, VcpuClock, VcpuId, VcpuTotals};
use vmnoise_host::{GuestTsc, Host, VcpuThread, VmProcess};

/// Identity of a process or thread. A later process or thread with the same id has another
/// identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    pid: u32,
    started_ticks: u64,
}

impl Identity {
    /// Returns the identity of the process that has this id now.
    pub fn of(host: &Host, pid: u32) -> Option<Identity> {
        let started_ticks = host.place(pid).ok()?.started_ticks;
        Some(Identity { pid, started_ticks })
    }

    /// Returns whether the process or thread with this id is still the same.
    pub fn still_is(&self, host: &Host, pid: u32) -> bool {
        Identity::of(host, pid) == Some(*self)
    }
}

/// Threads whose exits were counted, with their identity when they were first seen.
#[derive(Debug, Default)]
pub struct Threads(BTreeMap<VcpuId, Option<Identity>>);

impl Threads {
    /// Adds the identities of new threads.
    pub fn see(&mut self, host: &Host, counted: &[(Vcpu, VcpuTotals)]) {
        for (vcpu, _) in counted {
            let entry = self.0.entry(vcpu.id);
            entry.or_insert_with(|| Identity::of(host, vcpu.tid));
        }
    }

    /// Returns whether this vCPU's count has only exits of the thread that has its thread id now.
    pub fn is_same(&self, host: &Host, vcpu: &Vcpu) -> bool {
        let seen = self.0.get(&vcpu.id).copied().flatten();
        seen.is_some_and(|thread| thread.still_is(host, vcpu.tid))
    }
}

/// Clocks of guests. The key of each clock is the thread of its vCPU and the vCPU's number.
#[derive(Debug, Default)]
pub struct FedClocks(BTreeMap<(u32, u32), GuestTsc>);

impl FedClocks {
    /// Takes new readings of the clocks. A vCPU without a new reading keeps its clock, because the
    /// vCPU may have run a nested guest at that moment. The clocks of vCPUs that are gone are
    /// removed.
    pub fn take(&mut self, seen: &[(u32, u32, GuestTsc)], vms: &[VmProcess]) {
        let threads = vms.iter().flat_map(|vm| &vm.vcpus);
        let living: Vec<(u32, u32)> = threads.map(|thread| (thread.tid, thread.id)).collect();
        self.0.retain(|key, _| living.contains(key));
        let seen = seen
            .iter()
            .map(|(tid, number, tsc)| ((*tid, *number), *tsc));
        self.0.extend(seen);
    }

    /// Returns the clock of this thread's guest.
    pub fn of(&self, vcpu: VcpuId, thread: &VcpuThread) -> Option<VcpuClock> {
        let tsc = self.0.get(&(thread.tid, thread.id))?;
        Some(VcpuClock {
            vcpu,
            before_until_mono_ns: 0,
            from_mono_ns: 0,
            offset_tsc: tsc.offset_tsc,
            ratio: tsc.ratio,
            ratio_frac_bits: tsc.ratio_frac_bits,
        })
    }
}

/// Returns whether this process has more than one VM: two vCPUs have the same number, or belong to
/// different VMs.
pub fn has_several(vm: &VmProcess, counted: &[(Vcpu, VcpuTotals)]) -> bool {
    let mut numbers: Vec<u32> = vm.vcpus.iter().map(|thread| thread.id).collect();
    numbers.sort_unstable();
    let doubled = numbers.windows(2).any(|pair| pair[0] == pair[1]);
    let is_its = |vcpu: &Vcpu| {
        let mut threads = vm.vcpus.iter();
        vcpu.vmm_pid == vm.pid && threads.any(|thread| thread.tid == vcpu.tid)
    };
    let own = counted.iter().map(|(vcpu, _)| vcpu);
    let mut ids = own
        .filter(|vcpu| vcpu.vm != 0 && is_its(vcpu))
        .map(|vcpu| vcpu.vm);
    let first = ids.next();
    doubled || ids.any(|id| Some(id) != first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vcpu(id: u32, tid: u32, vmm_pid: u32, vm: u64) -> (Vcpu, VcpuTotals) {
        let vcpu = Vcpu {
            id: VcpuId(id),
            tid,
            vmm_pid,
            number: None,
            vm,
            vm_name: Default::default(),
            identity: Default::default(),
            sees_kvm: true,
        };
        let totals = VcpuTotals {
            vcpu: vcpu.id,
            first_mono_ns: 0,
            last_mono_ns: 0,
            exits: 0,
            heavy: 0,
            split: Default::default(),
            unseen_ns: 0,
            worst: None,
            reasons: Vec::new(),
        };
        (vcpu, totals)
    }

    fn vm(vcpus: &[(u32, u32)]) -> VmProcess {
        let thread = |&(id, tid): &(u32, u32)| VcpuThread {
            id,
            tid,
            cpus: String::new(),
            policy: String::new(),
        };
        VmProcess {
            pid: 9,
            name: "web".into(),
            identity: Default::default(),
            vcpus: vcpus.iter().map(thread).collect(),
        }
    }

    #[test]
    fn a_process_with_two_vms_is_told_from_one_with_two_vcpus() {
        let one = [vcpu(0, 80, 9, 7), vcpu(1, 81, 9, 7)];
        assert!(!has_several(&vm(&[(0, 80), (1, 81)]), &one));
        assert!(has_several(&vm(&[(0, 80), (0, 81)]), &one));
        let two = [vcpu(0, 80, 9, 7), vcpu(1, 81, 9, 8)];
        assert!(has_several(&vm(&[(0, 80), (1, 81)]), &two));
        // The list also has an earlier VM of this process, and a VM of another process.
        let gone = [vcpu(0, 70, 9, 6), vcpu(1, 80, 9, 7), vcpu(2, 81, 5, 8)];
        assert!(!has_several(&vm(&[(0, 80)]), &gone));
    }

    #[test]
    fn a_thread_that_took_anothers_id_is_not_the_same() {
        let root = tempfile::tempdir().unwrap();
        let stat = |started: u64| {
            let folder = root.path().join("proc/80");
            std::fs::create_dir_all(&folder).unwrap();
            let before = "0 ".repeat(18);
            let text = format!("80 (a b) S {before}{started} {}", "0 ".repeat(30));
            std::fs::write(folder.join("stat"), text).unwrap();
        };
        stat(100);
        let host = Host::under(root.path());
        let counted = [vcpu(0, 80, 9, 7), vcpu(1, 99, 9, 7)];
        let mut threads = Threads::default();
        threads.see(&host, &counted);
        assert!(threads.is_same(&host, &counted[0].0));
        assert!(
            !threads.is_same(&host, &counted[1].0),
            "it was gone already"
        );
        stat(200);
        threads.see(&host, &counted);
        assert!(!threads.is_same(&host, &counted[0].0));
    }
}
