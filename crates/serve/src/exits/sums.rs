//! Numbers of recorded exits by VM and reason. Pure.

use std::collections::BTreeMap;

use vmnoise_events::{Name, VcpuTotals};

/// Largest number of VMs with their own series. A family of metrics has at most 2000 series. Each
/// VM has up to 41 series, one for each reason.
const VMS: usize = 2_000 / 41;
/// Name for the sum of all other reasons, and for the sum of all other VMs.
const OTHER: &str = "other";

/// Number of recorded exits of one VM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Total time in which exits of the VM were recorded, in ns.
    pub(crate) looked_ns: u64,
    /// Number of exits by the name of their reason.
    pub(crate) exits: BTreeMap<Name, u64>,
}

impl Sums {
    /// Adds the numbers of exits of one vCPU.
    pub(super) fn add(&mut self, totals: &VcpuTotals) {
        for reason in &totals.reasons {
            let name = reason.reason.map(|reason| Name::new(&reason.name()));
            let name = name.unwrap_or_else(|| OTHER.into());
            *self.exits.entry(name).or_default() += reason.count;
        }
    }
}

/// Numbers of recorded exits of all VMs. At most [`VMS`] VMs have their own numbers.
#[derive(Debug, Default)]
pub(super) struct AllSums {
    vms: BTreeMap<Name, Known>,
    /// Sum over the VMs that do not have their own numbers.
    others: Sums,
}

#[derive(Debug, Default)]
struct Known {
    sums: Sums,
    has_ended: bool,
}

impl AllSums {
    /// Adds a recording of a VM: its length, and the numbers of exits.
    pub(super) fn take(&mut self, vm: &Name, counted: Sums) {
        if self.vms.len() >= VMS && !self.vms.contains_key(vm) {
            let mut ended = self.vms.iter().filter(|(_, known)| known.has_ended);
            if let Some(name) = ended.next().map(|(name, _)| name.clone()) {
                self.vms.remove(&name);
            }
        }
        let has_place = self.vms.len() < VMS || self.vms.contains_key(vm);
        let sums = match has_place {
            true => &mut self.vms.entry(vm.clone()).or_default().sums,
            false => &mut self.others,
        };
        sums.looked_ns += counted.looked_ns;
        for (reason, count) in counted.exits {
            *sums.exits.entry(reason).or_default() += count;
        }
    }

    pub(super) fn are_present(&mut self, is_present: impl Fn(&Name) -> bool) {
        for (name, known) in &mut self.vms {
            known.has_ended = !is_present(name);
        }
    }

    pub(super) fn all(&self) -> Vec<(Name, Sums)> {
        let vms = self.vms.iter();
        let known = vms.map(|(name, known)| (name.clone(), known.sums.clone()));
        let others = (self.others.looked_ns > 0).then(|| (OTHER.into(), self.others.clone()));
        known.chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(count: u64) -> Sums {
        Sums {
            looked_ns: 1,
            exits: BTreeMap::from([("HLT".into(), count)]),
        }
    }

    fn of<'a>(all: &'a [(Name, Sums)], vm: &str) -> Option<&'a Sums> {
        let mut its = all.iter().filter(|(name, _)| name == vm);
        its.next().map(|(_, sums)| sums)
    }

    #[test]
    fn so_many_vms_have_sums_of_their_own_and_those_that_ended_make_room() {
        let mut all = AllSums::default();
        for number in 0..VMS + 2 {
            all.take(&format!("vm{number:02}").as_str().into(), counted(2));
        }
        assert_eq!(all.all().len(), VMS + 1);
        assert_eq!(of(&all.all(), OTHER).unwrap().exits["HLT"], 4);
        all.take(&"vm00".into(), counted(3));
        assert_eq!(of(&all.all(), "vm00").unwrap().exits["HLT"], 5);
        all.are_present(|vm| vm != "vm07");
        all.take(&"late".into(), counted(1));
        let told = all.all();
        assert_eq!(of(&told, "late").unwrap().exits["HLT"], 1);
        assert_eq!((of(&told, "vm07"), told.len()), (None, VMS + 1));
        assert_eq!(of(&told, OTHER).unwrap().looked_ns, 2);
    }
}
