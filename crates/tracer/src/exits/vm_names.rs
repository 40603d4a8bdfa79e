//! Names of VMs and numbers of vCPUs. No event reports them. Pure: no I/O, no BPF.

use std::collections::BTreeMap;

use vmnoise_events::{Name, Vcpu, VcpuId, VmIdentity};

use super::wire::WireVcpu;
use vmnoise_host::VmProcess;

/// Value of `id` of a vCPU that no event has named.
const NO_ID: u32 = u32::MAX;

/// Facts about processes, by process id. They are valid until another process gets this id.
#[derive(Debug, Default)]
pub(super) struct VmNames(BTreeMap<u32, Learned>);

#[derive(Debug)]
struct Learned {
    name: Name,
    identity: VmIdentity,
    /// Number of each vCPU by its thread id, for all present and earlier vCPUs of the process.
    numbers: BTreeMap<u32, u32>,
}

impl VmNames {
    pub(super) fn learn(&mut self, vms: Vec<VmProcess>) {
        for vm in vms {
            let learned = self.0.entry(vm.pid).or_insert_with(|| Learned {
                name: vm.name.clone(),
                identity: vm.identity.clone(),
                numbers: BTreeMap::new(),
            });
            learned.name = vm.name;
            learned.identity = vm.identity;
            let threads = vm.vcpus.iter().map(|vcpu| (vcpu.tid, vcpu.id));
            learned.numbers.extend(threads);
        }
    }

    /// Forgets the facts about a process id, because another process has it or may have it now.
    pub(super) fn forget(&mut self, process: u32) {
        self.0.remove(&process);
    }

    /// Forgets all processes for which `is_there` returns false.
    pub(super) fn keep(&mut self, is_there: impl Fn(u32) -> bool) {
        self.0.retain(|process, _| is_there(*process));
    }

    pub(super) fn vcpu(&self, id: VcpuId, wire: &WireVcpu, sees_kvm: bool) -> Vcpu {
        let reported = (wire.id != NO_ID).then_some(wire.id);
        let learned = self.0.get(&wire.tgid);
        let vm_name = learned.map(|learned| learned.name.clone());
        let identity = learned.map(|learned| learned.identity.clone());
        let number = learned.and_then(|learned| learned.numbers.get(&wire.tid).copied());
        Vcpu {
            id,
            tid: wire.tid,
            vmm_pid: wire.tgid,
            number: reported.or(number),
            vm: wire.vm,
            vm_name: vm_name.unwrap_or_else(|| format!("vm:{}", wire.tgid).into()),
            identity: identity.unwrap_or_default(),
            sees_kvm,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmnoise_host::VcpuThread;

    #[test]
    fn what_no_event_reports_is_learned() {
        let wire = WireVcpu {
            tid: 11,
            tgid: 9,
            id: NO_ID,
            ..WireVcpu::default()
        };
        let mut names = VmNames::default();
        let unknown = names.vcpu(VcpuId(0), &wire, false);
        assert_eq!((unknown.vm_name.as_str(), unknown.number), ("vm:9", None));

        names.learn(vec![VmProcess {
            pid: 9,
            name: "web".into(),
            identity: Default::default(),
            vcpus: vec![VcpuThread {
                id: 3,
                tid: 11,
                cpus: String::new(),
                policy: String::new(),
            }],
        }]);
        let known = names.vcpu(VcpuId(0), &wire, false);
        assert_eq!((known.vm_name.as_str(), known.number), ("web", Some(3)));
        let reported = names.vcpu(VcpuId(0), &WireVcpu { id: 5, ..wire }, true);
        assert_eq!(reported.number, Some(5));
    }
}
