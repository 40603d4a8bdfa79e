//! The gate, looked at again and again, and what each VM has lost by now.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use anyhow::Result;
use vmnoise_events::Name;
use vmnoise_tracer::host::Host;
use vmnoise_tracer::{Culprit, Found, Gate, Place, VcpuBooks};

use crate::labels;
use crate::ledger::VmTotals;
use crate::who::{Kind, Who};

/// VMs that have ended and are still told of: a scrape that comes later finds their last sums.
const ENDED: usize = 256;

/// All that is known of this host's VMs.
#[derive(Debug)]
pub(crate) struct Watch {
    gate: Gate,
    host: Host,
    vms: BTreeMap<u32, VmTotals>,
    ended: VecDeque<VmTotals>,
    /// The VMM of each place.
    vmms: BTreeMap<Place, u32>,
    without_room: u32,
}

impl Watch {
    /// Loads and attaches the gate, with room for this many vCPUs.
    pub(crate) fn begin(vcpus: u32) -> Result<Watch> {
        let mut gate = Gate::load(vcpus)?;
        gate.attach()?;
        let mut watch = Watch {
            gate,
            host: Host::here(),
            vms: BTreeMap::new(),
            ended: VecDeque::new(),
            vmms: BTreeMap::new(),
            without_room: 0,
        };
        watch.look()?;
        Ok(watch)
    }

    /// Who has come and who has ended; then takes in what all did.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        let look = self.gate.look()?;
        self.without_room = look.without_room;
        for (place, books) in &look.ended {
            self.take_in(*place, books);
            self.end(*place);
        }
        for found in &look.came {
            self.came(found);
        }
        self.take_in_all();
        Ok(())
    }

    /// Takes in what the vCPUs did that there were at the last look.
    pub(crate) fn take_in_all(&mut self) {
        let places: Vec<Place> = self.gate.present().map(|found| found.place).collect();
        for place in places {
            if let Some(books) = self.gate.books(place) {
                self.take_in(place, &books);
            }
        }
    }

    /// Those that there are.
    pub(crate) fn present(&self) -> impl Iterator<Item = &VmTotals> {
        self.vms.values()
    }

    /// Those that there are, and those that have ended.
    pub(crate) fn vms(&self) -> impl Iterator<Item = &VmTotals> {
        self.vms.values().chain(&self.ended)
    }

    /// vCPUs that no room was left for at the last look.
    pub(crate) fn without_room(&self) -> u32 {
        self.without_room
    }

    /// Events that the programs missed.
    pub(crate) fn missed(&self) -> io::Result<u64> {
        self.gate.missed()
    }

    /// What the programs have cost.
    pub(crate) fn probes_ns(&self) -> u64 {
        self.gate.own_cost().map_or(0, |cost| cost.bpf_ns)
    }

    fn came(&mut self, found: &Found) {
        self.vmms.insert(found.place, found.tgid);
        if self.vms.contains_key(&found.tgid) {
            return;
        }
        let name = self.host.vm_name(found.tgid);
        let name = name.unwrap_or_else(|| format!("vm:{}", found.tgid).into());
        let is_taken = |label: &Name| self.vms.values().any(|vm| vm.label == *label);
        let label = labels::choose(&name, found.tgid, is_taken);
        // It has begun anew, as its sums do.
        self.ended.retain(|vm| vm.label != label);
        self.vms.insert(found.tgid, VmTotals::new(label));
    }

    fn end(&mut self, place: Place) {
        let Some(vmm) = self.vmms.remove(&place) else {
            return;
        };
        let Some(vm) = self.vms.get_mut(&vmm) else {
            return;
        };
        vm.forget(place);
        if vm.vcpus() == 0
            && let Some(vm) = self.vms.remove(&vmm)
        {
            self.ended.push_back(vm);
            if self.ended.len() > ENDED {
                self.ended.pop_front();
            }
        }
    }

    fn take_in(&mut self, place: Place, books: &VcpuBooks) {
        let Some(&vmm) = self.vmms.get(&place) else {
            return;
        };
        let names: BTreeMap<Place, Name> = books
            .culprits
            .iter()
            .filter_map(|culprit| {
                let place = culprit.vcpu?;
                let vm = self.vms.get(self.vmms.get(&place)?)?;
                Some((place, vm.label.clone()))
            })
            .collect();
        let who = |culprit: &Culprit| who(culprit, &names);
        if let Some(vm) = self.vms.get_mut(&vmm) {
            vm.take_in(place, books, who);
        }
    }
}

fn who(culprit: &Culprit, names: &BTreeMap<Place, Name>) -> Who {
    let vm = culprit.vcpu.and_then(|place| names.get(&place));
    match (culprit.is_own, vm) {
        (true, _) => Who {
            kind: Kind::Own,
            name: culprit.name.clone(),
        },
        (false, Some(name)) => Who {
            kind: Kind::Vm,
            name: name.clone(),
        },
        (false, None) => Who {
            kind: Kind::Foreign,
            name: culprit.name.clone(),
        },
    }
}
