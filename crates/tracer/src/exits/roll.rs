//! Who the vCPUs are: each is defined when it comes, in the order of their ids and without holes.

use std::collections::BTreeSet;

use libbpf_rs::Object;
use vmnoise_events::{Event, Vcpu, VcpuId};

use super::maps::Maps;
use super::table::Table;
use super::vm_names::VmNames;
use super::wire::WireVcpu;
use crate::host::Vm;

/// The places in the kernel's table, and the names of those who have or had them.
#[derive(Debug)]
pub(super) struct Roll {
    pub(super) table: Table,
    names: VmNames,
    sees_kvm: bool,
    /// As they were defined last, by id.
    defined: Vec<Vcpu>,
    /// Processes of those who came since somebody asked.
    unasked: Vec<u32>,
    /// Names have come to be known since they were defined.
    stale: bool,
    /// Processes that were seen to hold VMs when all were looked at last. What a VM is called is
    /// known of others, too: of those of other users no more than that may be seen.
    hold_vms: BTreeSet<u32>,
    /// Whose VMs are gone, and whose places could not be given up yet.
    outlived: Vec<(VcpuId, u32)>,
}

impl Roll {
    pub(super) fn new(table: Table, sees_kvm: bool) -> Roll {
        Roll {
            table,
            names: VmNames::default(),
            sees_kvm,
            defined: Vec::new(),
            unasked: Vec::new(),
            stale: false,
            hold_vms: BTreeSet::new(),
            outlived: Vec::new(),
        }
    }

    pub(super) fn learn(&mut self, vms: Vec<Vm>) {
        self.names.learn(vms);
        self.stale = true;
    }

    /// Looks who has come and who has ended. Tells the VMMs' processes of those who came since
    /// the last call.
    pub(super) fn look(&mut self, object: &Object) -> std::io::Result<Vec<u32>> {
        self.see(object)?;
        let mut processes = std::mem::take(&mut self.unasked);
        processes.sort_unstable();
        processes.dedup();
        Ok(processes)
    }

    fn see(&mut self, object: &Object) -> std::io::Result<()> {
        for place in self.table.look(object)? {
            self.unasked.push(read(object, place)?.tgid);
        }
        Ok(())
    }

    /// Defines those who have come, and those anew of whom more is known.
    pub(super) fn define(
        &mut self,
        object: &Object,
        sink: &mut dyn FnMut(Event),
    ) -> std::io::Result<()> {
        self.see(object)?;
        let anew = std::mem::take(&mut self.stale);
        for (id, place) in self.table.present() {
            let is_known = (id.0 as usize) < self.defined.len();
            if anew || !is_known {
                self.define_one(object, id, place, sink)?;
            }
        }
        Ok(())
    }

    /// A look at all processes that can be looked into: these hold VMs. Tells which did at the
    /// look before, and do no more.
    pub(super) fn gone(&mut self, vms: &[Vm]) -> BTreeSet<u32> {
        let before = std::mem::take(&mut self.hold_vms);
        self.hold_vms = vms.iter().map(|vm| vm.pid).collect();
        before.difference(&self.hold_vms).copied().collect()
    }

    /// Vacates the places of those whose VM was seen at the look before, and is not among these.
    pub(super) fn forget_gone(&mut self, object: &Object, vms: &[Vm]) -> std::io::Result<()> {
        let gone = self.gone(vms);
        let mut outlived = std::mem::take(&mut self.outlived);
        let present = self.table.present().into_iter();
        outlived.extend(present.filter(|(id, _)| {
            // Who came since is of another VM.
            let vcpu = self.defined.get(id.0 as usize);
            vcpu.is_some_and(|vcpu| gone.contains(&vcpu.vmm_pid))
        }));
        for vcpu in outlived {
            if !self.table.vacate(object, vcpu)? {
                self.outlived.push(vcpu);
            }
        }
        Ok(())
    }

    /// Whose place this is, who is defined then.
    pub(super) fn at(
        &mut self,
        object: &Object,
        place: u32,
        sink: &mut dyn FnMut(Event),
    ) -> std::io::Result<VcpuId> {
        if self.table.at(place).is_none() {
            for place in self.table.newcomers(object)? {
                self.unasked.push(read(object, place)?.tgid);
            }
            self.define(object, sink)?;
        }
        let id = self.table.at(place);
        id.ok_or_else(|| std::io::Error::other("a vCPU without a place in the table"))
    }

    /// Defines it anew, where its first exit has told whose it is.
    pub(super) fn complete(
        &mut self,
        object: &Object,
        place: u32,
        sink: &mut dyn FnMut(Event),
    ) -> std::io::Result<VcpuId> {
        let id = self.at(object, place, sink)?;
        if self.sees_kvm && self.defined[id.0 as usize].vm == 0 {
            self.define_one(object, id, place, sink)?;
        }
        Ok(id)
    }

    /// What is known of whoever has this place.
    pub(super) fn vcpu(&self, id: VcpuId, wire: &WireVcpu) -> Vcpu {
        self.names.vcpu(id, wire, self.sees_kvm)
    }

    /// Who has a place now, as they were defined last.
    pub(super) fn present(&self) -> Vec<Vcpu> {
        let present = self.table.present().into_iter();
        present
            .filter_map(|(id, _)| self.defined.get(id.0 as usize).cloned())
            .collect()
    }

    fn define_one(
        &mut self,
        object: &Object,
        id: VcpuId,
        place: u32,
        sink: &mut dyn FnMut(Event),
    ) -> std::io::Result<()> {
        let known = self.vcpu(id, &read(object, place)?);
        match self.defined.get_mut(id.0 as usize) {
            Some(defined) if *defined == known => return Ok(()),
            Some(defined) => *defined = known.clone(),
            None => self.defined.push(known.clone()),
        }
        sink(Event::Vcpu(known));
        Ok(())
    }
}

fn read(object: &Object, place: u32) -> std::io::Result<WireVcpu> {
    let wire = object.value("vcpus", place)?;
    wire.ok_or_else(|| std::io::Error::other("a vCPU beyond the table"))
}
