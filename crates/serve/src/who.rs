//! Who had the CPU for which a vCPU waited.

use vmnoise_events::Name;
use vmnoise_tracer::{Culprit, VcpuId};

/// Whose fault it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A task of somebody else.
    Foreign,
    /// A thread of the VM's own VMM.
    Own,
    /// A vCPU of another VM, under the name of that.
    Vm,
}

impl Kind {
    /// As it is called in the metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Foreign => "foreign",
            Kind::Own => "own",
            Kind::Vm => "vm",
        }
    }
}

/// Who had a VM's CPUs while it waited.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Who {
    pub(crate) kind: Kind,
    pub(crate) name: Name,
    /// The pod, container or unit that it is in; `None` where that is not known, and of those that are
    /// not foreign.
    pub(crate) cgroup: Option<Name>,
}

impl Who {
    /// As a culprit of the gate is told. `vm_of` says whose each vCPU is that was found, `cgroup` what the
    /// cgroup of this id is called.
    pub(crate) fn of<'a>(
        culprit: &'a Culprit,
        vm_of: impl Fn(VcpuId) -> Option<&'a Name>,
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
        let vms = BTreeMap::from([(VcpuId(7), Name::new("db"))]);
        let told = |vcpu: Option<u32>, is_own| {
            let culprit = Culprit {
                name: "qemu".into(),
                cgroup: 1,
                vcpu: vcpu.map(VcpuId),
                is_own,
                ns: 1,
                comm: [1, 0],
            };
            let who = Who::of(&culprit, |vcpu| vms.get(&vcpu), |_| None);
            format!("{} {}", who.kind.name(), who.name)
        };
        assert_eq!(told(Some(7), false), "vm db");
        assert_eq!(told(Some(7), true), "own qemu");
        // It is a vCPU that was not found yet.
        assert_eq!(told(Some(8), false), "foreign qemu");
        assert_eq!(told(None, false), "foreign qemu");
        assert_eq!(told(None, true), "own qemu");
    }
}
