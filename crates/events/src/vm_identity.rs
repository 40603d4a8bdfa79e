//! Who a VM is, beside its name: as its VMM, its cgroup and its container's runtime tell.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::Name;

/// One thing that may be known of a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum VmFact {
    /// What runs it: `qemu`, `firecracker`, `cloud-hypervisor`, `crosvm` or `kvmtool`.
    Vmm = 0,
    /// Its UUID, in lower case: that of the libvirt domain, and of its SMBIOS.
    Uuid = 1,
    /// Proxmox's number.
    Vmid = 2,
    /// The Kubernetes namespace.
    Namespace = 3,
    /// What KubeVirt calls it in its namespace.
    Vmi = 4,
    /// The pod that its VMM runs in.
    Pod = 5,
    /// The UID of this pod.
    PodUid = 6,
    /// The id of the container that its VMM runs in.
    Container = 7,
    /// The systemd service or scope that its VMM runs in, as systemctl(1) takes it.
    Unit = 8,
}

impl VmFact {
    /// Each of them, by its number in recordings.
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

    /// Its number in recordings.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The fact with this number, or `None` for a number that this version does not know.
    pub fn from_number(number: u8) -> Option<VmFact> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// What it is called as a key of JSON and a label of metrics.
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

/// All that is known of a VM; what is not in here is unknown. In JSON each fact is there, those that
/// are not known as `null`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VmIdentity(BTreeMap<VmFact, Name>);

impl VmIdentity {
    /// This fact, if it is known.
    pub fn get(&self, fact: VmFact) -> Option<&Name> {
        self.0.get(&fact)
    }

    /// Takes in what is said of it; an empty word says nothing.
    pub fn learn(&mut self, fact: VmFact, word: impl Into<Name>) {
        let word = word.into();
        if !word.is_empty() {
            self.0.insert(fact, word);
        }
    }

    /// What is known, in the order of the facts.
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
