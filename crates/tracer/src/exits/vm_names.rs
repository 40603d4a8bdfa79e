//! What VMs and their vCPUs are called, for what no event tells. Pure: no I/O, no BPF.

use std::collections::BTreeMap;

use vmnoise_events::{Name, Vcpu, VcpuId};

use super::wire::WireVcpu;
use crate::host::Vm;

/// The `id` of a vCPU that no event named.
const NO_ID: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(super) struct VmNames {
    /// By the process of the VMM.
    names: BTreeMap<u32, Name>,
    /// Numbers of vCPUs by thread.
    numbers: BTreeMap<u32, u32>,
}

impl VmNames {
    pub(super) fn learn(&mut self, vms: Vec<Vm>) {
        for vm in vms {
            let threads = vm.vcpus.iter().map(|vcpu| (vcpu.tid, vcpu.id));
            self.numbers.extend(threads);
            self.names.insert(vm.pid, vm.name);
        }
    }

    pub(super) fn vcpu(&self, id: VcpuId, wire: &WireVcpu, sees_kvm: bool) -> Vcpu {
        let told = (wire.id != NO_ID).then_some(wire.id);
        let vm_name = self.names.get(&wire.tgid).cloned();
        Vcpu {
            id,
            tid: wire.tid,
            vmm_pid: wire.tgid,
            number: told.or_else(|| self.numbers.get(&wire.tid).copied()),
            vm: wire.vm,
            vm_name: vm_name.unwrap_or_else(|| format!("vm:{}", wire.tgid).into()),
            sees_kvm,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::VcpuThread;

    #[test]
    fn what_no_event_tells_is_learned() {
        let wire = WireVcpu {
            tid: 11,
            tgid: 9,
            id: NO_ID,
            ..WireVcpu::default()
        };
        let mut names = VmNames::default();
        let unknown = names.vcpu(VcpuId(0), &wire, false);
        assert_eq!((unknown.vm_name.as_str(), unknown.number), ("vm:9", None));

        names.learn(vec![Vm {
            pid: 9,
            name: "web".into(),
            vcpus: vec![VcpuThread {
                id: 3,
                tid: 11,
                cpus: String::new(),
                policy: String::new(),
            }],
        }]);
        let known = names.vcpu(VcpuId(0), &wire, false);
        assert_eq!((known.vm_name.as_str(), known.number), ("web", Some(3)));
        let told = names.vcpu(VcpuId(0), &WireVcpu { id: 5, ..wire }, true);
        assert_eq!(told.number, Some(5));
    }
}
