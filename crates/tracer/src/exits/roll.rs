//! The list of vCPUs. Each vCPU is defined by an event when it comes. Ids are ascending and without
//! gaps.

use std::collections::BTreeSet;

use libbpf_rs::Object;
use vmnoise_events::{Event, Vcpu, VcpuId};

use super::table::Table;
use super::vm_names::VmNames;
use super::wire::WireVcpu;
use crate::maps::Maps;
use vmnoise_host::VmProcess;

/// The kernel's table of vCPUs, and the names of the present and earlier vCPUs.
#[derive(Debug)]
pub(super) struct Roll {
    pub(super) table: Table,
    names: VmNames,
    sees_kvm: bool,
    /// Last definition of each vCPU, indexed by id.
    defined: Vec<Vcpu>,
    /// Process ids of the VMMs of the vCPUs that came since the last [`Roll::look`].
    arrived: Vec<u32>,
    /// Process ids that the caller looks up at the moment, without a result yet.
    looked_at: BTreeSet<u32>,
    /// vCPUs that ended while their processes were being looked up, with the kernel's data about
    /// them.
    nameless: Vec<(VcpuId, WireVcpu)>,
    /// Whether names have been learned since the last [`Roll::define`].
    stale: bool,
    /// Processes that held VMs at the last scan of all processes. `names` may have further
    /// processes: files of other users' processes may be hidden, although their names are readable.
    hold_vms: BTreeSet<u32>,
    /// vCPUs whose VMs are gone, and whose table slots could not be freed yet.
    outlived: Vec<(VcpuId, u32)>,
}

impl Roll {
    pub(super) fn new(table: Table, sees_kvm: bool) -> Roll {
        Roll {
            table,
            names: VmNames::default(),
            sees_kvm,
            defined: Vec::new(),
            arrived: Vec::new(),
            looked_at: BTreeSet::new(),
            nameless: Vec::new(),
            stale: false,
            hold_vms: BTreeSet::new(),
            outlived: Vec::new(),
        }
    }

    pub(super) fn learn(&mut self, looked_at: &[u32], vms: Vec<VmProcess>) {
        self.names.learn(vms);
        for process in looked_at {
            self.looked_at.remove(process);
        }
        self.stale = true;
    }

    /// Finds the vCPUs that have come or ended since the last call. Returns the process ids of the
    /// VMMs of new vCPUs. The caller must look up these processes.
    pub(super) fn look(&mut self, object: &Object) -> std::io::Result<Vec<u32>> {
        self.see(object)?;
        let mut processes = std::mem::take(&mut self.arrived);
        processes.sort_unstable();
        processes.dedup();
        self.looked_at.extend(&processes);
        Ok(processes)
    }

    fn see(&mut self, object: &Object) -> std::io::Result<()> {
        for place in self.table.look(object)? {
            self.welcome(read(object, place)?.tgid);
        }
        Ok(())
    }

    /// Notes that a vCPU of this process has come. Forgets the names of the process if it has no
    /// other vCPUs and is not being looked up. Another process may have had the same process id.
    fn welcome(&mut self, process: u32) {
        let is_known = self.arrived.contains(&process) || self.is_heard_of(process);
        if !is_known {
            self.names.forget(process);
        }
        self.arrived.push(process);
    }

    /// Returns whether the process has defined vCPUs or is being looked up.
    fn is_heard_of(&self, process: u32) -> bool {
        let present = self.table.present().into_iter();
        let mut defined = present.filter_map(|(id, _)| self.defined.get(id.0 as usize));
        self.looked_at.contains(&process) || defined.any(|vcpu| vcpu.vmm_pid == process)
    }

    /// Defines the new vCPUs, and defines vCPUs again whose facts have changed.
    pub(super) fn define(
        &mut self,
        object: &Object,
        sink: &mut dyn FnMut(Event),
    ) -> std::io::Result<()> {
        self.see(object)?;
        let anew = std::mem::take(&mut self.stale);
        if anew {
            self.name_those_who_ended(sink);
        }
        for (id, place) in self.table.present() {
            let is_known = (id.0 as usize) < self.defined.len();
            if anew || !is_known {
                self.define_one(object, id, place, sink)?;
            }
        }
        Ok(())
    }

    /// Takes the VMs that a scan of all processes found. Returns the process ids that held a VM at
    /// the previous scan and no longer do.
    pub(super) fn gone(&mut self, vms: &[VmProcess]) -> BTreeSet<u32> {
        let before = std::mem::take(&mut self.hold_vms);
        self.hold_vms = vms.iter().map(|vm| vm.pid).collect();
        before.difference(&self.hold_vms).copied().collect()
    }

    /// Frees the table slots of vCPUs whose VM existed at the previous scan, and is not in `vms`.
    pub(super) fn forget_gone(
        &mut self,
        object: &Object,
        vms: &[VmProcess],
    ) -> std::io::Result<()> {
        let gone = self.gone(vms);
        let mut names = std::mem::take(&mut self.names);
        names.keep(|process| !gone.contains(&process) || self.is_heard_of(process));
        self.names = names;
        let mut outlived = std::mem::take(&mut self.outlived);
        let present = self.table.present().into_iter();
        outlived.extend(present.filter(|(id, _)| {
            // A vCPU without a definition came later, and belongs to another VM.
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

    /// Returns the vCPU that has this table slot. Defines the vCPU if it is new.
    pub(super) fn at(
        &mut self,
        object: &Object,
        place: u32,
        sink: &mut dyn FnMut(Event),
    ) -> std::io::Result<VcpuId> {
        if self.table.at(place).is_none() {
            for place in self.table.newcomers(object)? {
                self.welcome(read(object, place)?.tgid);
            }
            self.define(object, sink)?;
        }
        let id = self.table.at(place);
        id.ok_or_else(|| std::io::Error::other("a vCPU without a place in the table"))
    }

    /// Defines a vCPU again if its first exit has shown to which VM the vCPU belongs.
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

    /// Returns the known facts about the vCPU in a table slot.
    pub(super) fn vcpu(&self, id: VcpuId, wire: &WireVcpu) -> Vcpu {
        self.names.vcpu(id, wire, self.sees_kvm)
    }

    /// Returns the last definitions of the vCPUs that have a table slot now.
    pub(super) fn present(&self) -> Vec<Vcpu> {
        let present = self.table.present().into_iter();
        present
            .filter_map(|(id, _)| self.defined.get(id.0 as usize).cloned())
            .collect()
    }

    /// Returns the same as `present`, without vCPUs whose processes are being looked up. Their
    /// numbers in their VMs are not known yet.
    pub(super) fn looked_up(&self) -> Vec<Vcpu> {
        let mut vcpus = self.present();
        vcpus.retain(|vcpu| {
            let process = vcpu.vmm_pid;
            !self.looked_at.contains(&process) && !self.arrived.contains(&process)
        });
        vcpus
    }

    /// Frees the table slot of a vCPU that has ended and was reported.
    pub(super) fn bury(&mut self, object: &Object, id: VcpuId, place: u32) -> std::io::Result<()> {
        let wire = read(object, place)?;
        if self.looked_at.contains(&wire.tgid) {
            self.nameless.push((id, wire));
        }
        self.table.free(object, place)
    }

    /// Defines the vCPUs again that ended while their processes were being looked up.
    fn name_those_who_ended(&mut self, sink: &mut dyn FnMut(Event)) {
        let is_reported = |(_, wire): &mut (_, WireVcpu)| !self.looked_at.contains(&wire.tgid);
        let reported: Vec<(VcpuId, WireVcpu)> = self.nameless.extract_if(.., is_reported).collect();
        for (id, wire) in reported {
            self.define_as(id, &wire, sink);
        }
    }

    fn define_one(
        &mut self,
        object: &Object,
        id: VcpuId,
        place: u32,
        sink: &mut dyn FnMut(Event),
    ) -> std::io::Result<()> {
        self.define_as(id, &read(object, place)?, sink);
        Ok(())
    }

    fn define_as(&mut self, id: VcpuId, wire: &WireVcpu, sink: &mut dyn FnMut(Event)) {
        let known = self.vcpu(id, wire);
        match self.defined.get_mut(id.0 as usize) {
            Some(defined) if *defined == known => return,
            Some(defined) => *defined = known.clone(),
            None => self.defined.push(known.clone()),
        }
        sink(Event::Vcpu(known));
    }
}

fn read(object: &Object, place: u32) -> std::io::Result<WireVcpu> {
    let wire = object.value("vcpus", place)?;
    wire.ok_or_else(|| std::io::Error::other("a vCPU beyond the table"))
}
