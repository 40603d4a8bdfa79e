//! Facts that identify a VM in addition to its name. They come from its VMM, its cgroup and the
//! runtime of its container.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::Name;

/// Kind of fact that identifies a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum VmFact {
    /// Name of the VMM: `qemu`, `firecracker`, `cloud-hypervisor`, `crosvm` or `kvmtool`.
    Vmm = 0,
    /// UUID of the libvirt domain, in lower case. The guest's SMBIOS has the same UUID.
    Uuid = 1,
    /// Number of the VM in Proxmox.
    Vmid = 2,
    /// Kubernetes namespace.
    Namespace = 3,
    /// Name of the KubeVirt VirtualMachineInstance of the VM, without its namespace.
    Vmi = 4,
    /// Name of the pod in which the VMM runs.
    Pod = 5,
    /// UID of the pod in which the VMM runs.
    PodUid = 6,
    /// Id of the container in which the VMM runs.
    Container = 7,
    /// Name of the systemd service or scope in which the VMM runs, as systemctl(1) accepts it.
    Unit = 8,
}

impl VmFact {
    /// Every fact, ordered by its number in recordings.
    pub const ALL: [VmFact; 9] = [
        VmFact::Vmm,
        VmFact::Uuid,
        VmFact::Vmid,
        VmFact::Namespace,
        VmFact::Vmi,
        VmFact::Pod,
        VmFact::PodUid,
        VmFact::Container,
        VmFact::Unit,
    ];

    /// Returns the number of this fact in recordings.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the fact with this number, or `None` if this version does not know the number.
    pub fn from_number(number: u8) -> Option<VmFact> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns the name of this kind of fact as a JSON key and as a label of metrics.
    pub const fn name(self) -> &'static str {
        match self {
            VmFact::Vmm => "vmm",
            VmFact::Uuid => "uuid",
            VmFact::Vmid => "vmid",
            VmFact::Namespace => "namespace",
            VmFact::Vmi => "vmi",
            VmFact::Pod => "pod",
            VmFact::PodUid => "pod_uid",
            VmFact::Container => "container",
            VmFact::Unit => "unit",
        }
    }
}

/// Known facts that identify a VM. Facts that are missing are unknown; JSON lists them with `null`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VmIdentity(BTreeMap<VmFact, Name>);

impl VmIdentity {
    /// Returns the value of this fact; `None` if it is unknown.
    pub fn get(&self, fact: VmFact) -> Option<&Name> {
        self.0.get(&fact)
    }

    /// Sets a fact to `word`. An empty `word` is ignored.
    pub fn learn(&mut self, fact: VmFact, word: impl Into<Name>) {
        let word = word.into();
        if !word.is_empty() {
            self.0.insert(fact, word);
        }
    }

    /// Returns the known facts, in the order of [`VmFact::ALL`].
    pub fn known(&self) -> impl Iterator<Item = (VmFact, &Name)> {
        self.0.iter().map(|(fact, word)| (*fact, word))
    }
}

impl<W: Into<Name>> FromIterator<(VmFact, W)> for VmIdentity {
    fn from_iter<I: IntoIterator<Item = (VmFact, W)>>(facts: I) -> VmIdentity {
        let mut identity = VmIdentity::default();
        for (fact, word) in facts {
            identity.learn(fact, word);
        }
        identity
    }
}

impl Serialize for VmIdentity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(VmFact::ALL.map(|fact| (fact.name(), self.get(fact))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for fact in VmFact::ALL {
            assert_eq!(VmFact::from_number(fact.number()), Some(fact));
        }
        assert_eq!(VmFact::from_number(9), None);
    }

    #[test]
    fn what_is_unknown_is_null_and_an_empty_word_says_nothing() {
        let identity: VmIdentity = [(VmFact::Vmm, "qemu"), (VmFact::Pod, "")]
            .into_iter()
            .collect();
        let json = serde_json::to_value(&identity).unwrap();
        assert_eq!(json["vmm"], "qemu");
        assert!(json["pod"].is_null() && json.as_object().unwrap().len() == 9);
        assert_eq!(identity.known().count(), 1);
    }
}
