//! The kernel's table of vCPUs. It has a limited number of slots, which are reused when vCPUs end.

use libbpf_rs::Object;
use vmnoise_events::VcpuId;

use super::REASONS;
use super::wire::{WireCpu, WireReason, WireVcpu};
use crate::maps::Maps;
use crate::plain;

/// The vCPU in each slot of the kernel's table. Ids are given in the order in which vCPUs came, and
/// are never reused.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Id of the vCPU in each slot; `None` for a free slot. Slot 0 is not used.
    owners: Vec<Option<VcpuId>>,
    /// Number of vCPUs that have come so far.
    count: u32,
    /// Slots of vCPUs that have ended, and whose counts will be read for the last time.
    ended: Vec<u32>,
    /// Slots of vCPUs whose VM has ended although their thread lives. A CPU may still refer to
    /// them.
    vacating: Vec<u32>,
}

impl Table {
    /// Creates a table with this many free slots.
    pub(super) fn new(object: &Object, places: u32) -> std::io::Result<Table> {
        for place in 1..=places {
            object.push("free_places", place)?;
        }
        Ok(Table {
            owners: vec![None; places as usize + 1],
            ..Table::default()
        })
    }

    /// Puts a vCPU into the table before its first event. Returns its slot; `None` if no slot is
    /// free.
    pub(super) fn seat(
        &mut self,
        object: &Object,
        vcpu: &WireVcpu,
    ) -> std::io::Result<Option<u32>> {
        let Some(place) = object.pop("free_places")? else {
            return Ok(None);
        };
        object.set("vcpus", place, plain::bytes(vcpu))?;
        object.set("threads", vcpu.tid, &place.to_ne_bytes())?;
        self.own(place);
        Ok(Some(place))
    }

    /// Finds the vCPUs that have ended, and then the vCPUs that have come. Returns the slots of the
    /// new vCPUs.
    pub(super) fn look(&mut self, object: &Object) -> std::io::Result<Vec<u32>> {
        while let Some(place) = object.pop("ended")? {
            self.ended.push(place);
        }
        self.look_for_left(object)?;
        self.newcomers(object)
    }

    /// Returns the slots of the new vCPUs, and gives each vCPU an id. This happens before anything
    /// is reported of a vCPU.
    pub(super) fn newcomers(&mut self, object: &Object) -> std::io::Result<Vec<u32>> {
        let mut places = Vec::new();
        while let Some(place) = object.pop("newcomers")? {
            self.own(place);
            places.push(place);
        }
        Ok(places)
    }

    fn own(&mut self, place: u32) {
        if let Some(owner) = self.owners.get_mut(place as usize) {
            *owner = Some(VcpuId(self.count));
            self.count += 1;
        }
    }

    /// Returns the id of the vCPU in this slot; `None` if the slot is free.
    pub(super) fn at(&self, place: u32) -> Option<VcpuId> {
        self.owners.get(place as usize).copied().flatten()
    }

    /// Returns the vCPUs in the table with their slots, ordered by id.
    pub(super) fn present(&self) -> Vec<(VcpuId, u32)> {
        let owners = (0..).zip(&self.owners);
        let mut present: Vec<(VcpuId, u32)> = owners
            .filter_map(|(place, owner)| Some(((*owner)?, place)))
            .collect();
        present.sort_unstable();
        present
    }

    /// Removes a thread from the table that is no longer a vCPU, although the thread may live on.
    /// Returns whether this is complete. If the thread waits for a CPU, returns false: the kernel's
    /// count of waiting threads includes it until it gets a CPU.
    pub(super) fn vacate(
        &mut self,
        object: &Object,
        (id, place): (VcpuId, u32),
    ) -> std::io::Result<bool> {
        let Some(vcpu) = object.value::<WireVcpu>("vcpus", place)? else {
            return Ok(true);
        };
        // If the vCPU has ended, or the thread is another vCPU by now, the kernel itself reports
        // the end.
        if self.at(place) != Some(id) || object.value("threads", vcpu.tid)? != Some(place) {
            return Ok(true);
        }
        if vcpu.waits != 0 {
            return Ok(false);
        }
        if object.remove("threads", vcpu.tid)? {
            self.vacating.push(place);
        }
        Ok(true)
    }

    /// Moves slots from `vacating` to `ended` if no thread and no CPU refers to them any more.
    fn look_for_left(&mut self, object: &Object) -> std::io::Result<()> {
        if self.vacating.is_empty() {
            return Ok(());
        }
        let mut current = Vec::new();
        let mut cpu = 0;
        while let Some(slot) = object.value::<WireCpu>("exit_cpus", cpu)? {
            current.push(slot.vcpu);
            cpu += 1;
        }
        let left = |place: &mut u32| !current.contains(place);
        self.ended.extend(self.vacating.extract_if(.., left));
        Ok(())
    }

    /// Returns the vCPUs that have ended, ordered by id, with their slots. The caller reads their
    /// counts for the last time.
    pub(super) fn take_ended(&mut self) -> Vec<(VcpuId, u32)> {
        let ended = std::mem::take(&mut self.ended);
        let mut ended: Vec<(VcpuId, u32)> = ended
            .into_iter()
            .filter_map(|place| Some((self.at(place)?, place)))
            .collect();
        ended.sort_unstable();
        ended.dedup();
        ended
    }

    /// Clears a slot, so that the next vCPU can use it.
    pub(super) fn free(&mut self, object: &Object, place: u32) -> std::io::Result<()> {
        self.owners[place as usize] = None;
        object.set("vcpus", place, plain::bytes(&WireVcpu::default()))?;
        let nothing = WireReason::default();
        let first = place * REASONS as u32;
        for key in first..first + REASONS as u32 {
            object.set("reasons", key, plain::bytes(&nothing))?;
        }
        object.push("free_places", place)
    }
}
