//! The gate, looked at again and again, and what each VM has lost by now.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use anyhow::Result;
use vmnoise_events::{Name, VmIdentity};
use vmnoise_tracer::host::{CgroupNames, Host};
use vmnoise_tracer::{Culprit, Found, Gate, Place, VcpuBooks, VcpuId};

use crate::clock::now_ns;
use crate::labels;
use crate::ledger::VmTotals;
use crate::who::{Kind, Who};

/// VMs that have ended and are still told of: a scrape that comes later finds their last sums.
const ENDED: usize = 256;
/// vCPUs whose VMs are known by name: of those that have ended too, for somebody waited for them.
const NAMED: usize = 65_536;

/// All that is known of this host's VMs.
#[derive(Debug)]
pub(crate) struct Watch {
    gate: Gate,
    host: Host,
    vms: BTreeMap<u32, VmTotals>,
    ended: VecDeque<VmTotals>,
    /// The VMM of each place.
    vmms: BTreeMap<Place, u32>,
    /// Whose each vCPU is, or was.
    names: BTreeMap<VcpuId, Name>,
    cgroups: CgroupNames,
    without_room: u32,
    missed: u64,
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
            names: BTreeMap::new(),
            cgroups: CgroupNames::new(Host::here()),
            without_room: 0,
            missed: 0,
        };
        watch.look()?;
        Ok(watch)
    }

    /// Who has come and who has ended; then takes in what all did.
    ///
    /// # Errors
    /// If the kernel refuses the walk: who is known already stays so.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        let look = self.gate.look();
        if let Ok(look) = &look {
            self.without_room = look.without_room;
            for found in &look.came {
                self.came(found);
            }
            for (place, books) in &look.ended {
                self.take_in(*place, books, now_ns());
            }
        }
        self.take_in_all();
        for (place, _) in look.iter().flat_map(|look| &look.ended) {
            self.end(*place);
        }
        look.map(|_| ())
    }

    /// Takes in what the vCPUs did that there were at the last look.
    pub(crate) fn take_in_all(&mut self) {
        let places: Vec<Place> = self.gate.present().map(|found| found.place).collect();
        for place in places {
            let now_ns = now_ns();
            if let Some(books) = self.gate.books(place) {
                self.take_in(place, &books, now_ns);
            }
        }
        // One that cannot be read is as it was.
        self.missed = self.gate.missed().unwrap_or(self.missed);
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
    pub(crate) fn missed(&self) -> u64 {
        self.missed
    }

    /// What the program at switches has cost.
    pub(crate) fn probe_ns(&self) -> u64 {
        self.gate.probe_ns()
    }

    fn came(&mut self, found: &Found) {
        self.vmms.insert(found.place, found.tgid);
        let label = match self.vms.get(&found.tgid) {
            Some(vm) => vm.label.clone(),
            None => self.vm_came(found.tgid),
        };
        self.names.insert(found.id, label);
        if self.names.len() > NAMED {
            self.names.pop_first();
        }
    }

    fn vm_came(&mut self, pid: u32) -> Name {
        let known = self.host.who_is_vm(pid);
        let (name, identity) =
            known.unwrap_or_else(|| (format!("vm:{pid}").into(), VmIdentity::default()));
        let is_taken = |label: &Name| self.vms.values().any(|vm| vm.label == *label);
        let label = labels::choose(&name, pid, is_taken);
        // It has begun anew, as its sums do.
        self.ended.retain(|vm| vm.label != label);
        let totals = VmTotals::new(label.clone(), identity);
        self.vms.insert(pid, totals);
        label
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

    fn take_in(&mut self, place: Place, books: &VcpuBooks, mono_ns: u64) {
        let Some(vmm) = self.vmms.get(&place) else {
            return;
        };
        let foreign = books.culprits.iter().filter(|it| !it.is_own);
        self.cgroups.look_for(foreign.map(|it| it.cgroup));
        let (names, cgroups) = (&self.names, &self.cgroups);
        if let Some(vm) = self.vms.get_mut(vmm) {
            vm.take_in(place, books, mono_ns, |culprit| {
                who(culprit, names, cgroups)
            });
        }
    }
}

fn who(culprit: &Culprit, names: &BTreeMap<VcpuId, Name>, cgroups: &CgroupNames) -> Who {
    let vm = culprit.vcpu.and_then(|vcpu| names.get(&vcpu));
    let (kind, name) = match (culprit.is_own, vm) {
        (true, _) => (Kind::Own, &culprit.name),
        (false, Some(name)) => (Kind::Vm, name),
        (false, None) => (Kind::Foreign, &culprit.name),
    };
    let is_foreign = kind == Kind::Foreign;
    let cgroup = is_foreign.then(|| cgroups.get(culprit.cgroup)).flatten();
    Who {
        kind,
        name: name.clone(),
        cgroup: cgroup.cloned(),
    }
}
