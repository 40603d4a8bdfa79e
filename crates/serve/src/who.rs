//! Identity of the tasks that had a CPU for which a vCPU waited.

use vmnoise_events::Name;
use vmnoise_tracer::{GateVcpuId, WaitCulprit};

/// Relation of a culprit to the VM that waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A task that is neither a known vCPU nor a thread of the waiting VM's VMM.
    Foreign,
    /// A thread of the VM's own VMM.
    Own,
    /// A vCPU of another VM. The culprit's name is the name of that VM.
    Vm,
}

impl Kind {
    /// Returns the name of this kind in the metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Foreign => "foreign",
            Kind::Own => "own",
            Kind::Vm => "vm",
        }
    }
}

/// A culprit: a task that had a CPU while a vCPU waited for it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Who {
    pub(crate) kind: Kind,
    pub(crate) name: Name,
    /// Pod, container or unit of the task; `None` if it is unknown or the culprit is not foreign.
    pub(crate) cgroup: Option<Name>,
}

impl Who {
    /// Converts a culprit of the gate. `vm_of` returns the VM of a vCPU. `cgroup` returns the name
    /// of the cgroup with this id.
    pub(crate) fn of<'a>(
        culprit: &'a WaitCulprit,
        vm_of: impl Fn(GateVcpuId) -> Option<&'a Name>,
        cgroup: impl Fn(u64) -> Option<&'a Name>,
    ) -> Who {
        let vm = culprit.vcpu.and_then(vm_of);
        let (kind, name) = match (culprit.is_own, vm) {
            (true, _) => (Kind::Own, &culprit.name),
            (false, Some(vm)) => (Kind::Vm, vm),
            (false, None) => (Kind::Foreign, &culprit.name),
        };
        let is_foreign = kind == Kind::Foreign;
        let cgroup = is_foreign.then(|| cgroup(culprit.cgroup)).flatten();
        Who {
            kind,
            name: name.clone(),
            cgroup: cgroup.cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_vcpu_is_told_as_its_vm_unless_that_is_the_one_that_waits() {
        let vms = BTreeMap::from([(GateVcpuId(7), Name::new("db"))]);
        let told = |vcpu: Option<u32>, is_own| {
            let culprit = WaitCulprit {
                name: "qemu".into(),
                cgroup: 1,
                vcpu: vcpu.map(GateVcpuId),
                is_own,
                ns: 1,
                comm: [1, 0],
            };
            let who = Who::of(&culprit, |vcpu| vms.get(&vcpu), |_| None);
            format!("{} {}", who.kind.name(), who.name)
        };
        assert_eq!(told(Some(7), false), "vm db");
        assert_eq!(told(Some(7), true), "own qemu");
        // The culprit is a vCPU that the gate has not reported yet.
        assert_eq!(told(Some(8), false), "foreign qemu");
        assert_eq!(told(None, false), "foreign qemu");
        assert_eq!(told(None, true), "own qemu");
    }
}
