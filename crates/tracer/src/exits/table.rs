//! The table of vCPUs in the kernel: few places, for vCPUs that come and go.

use libbpf_rs::Object;
use vmnoise_events::VcpuId;

use super::REASONS;
use super::wire::{WireCpu, WireReason, WireVcpu};
use crate::maps::Maps;
use crate::plain;

/// The vCPU of each place. Ids are given in the order in which vCPUs came, and are never reused.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// By place. Place 0 belongs to no vCPU.
    owners: Vec<Option<VcpuId>>,
    /// Number of vCPUs that came so far.
    count: u32,
    /// Places of vCPUs that have ended, before their last reading.
    ended: Vec<u32>,
    /// As `ended`, but the thread lives and may be current as a vCPU on some CPU.
    vacating: Vec<u32>,
}

impl Table {
    /// Creates a table with this many places, all free.
    pub(super) fn new(object: &Object, places: u32) -> std::io::Result<Table> {
        for place in 1..=places {
            object.push("free_places", place)?;
        }
        Ok(Table {
            owners: vec![None; places as usize + 1],
            ..Table::default()
        })
    }

    /// Gives a vCPU a place before its first event; `None` if no place is free.
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

    /// Finds which vCPUs have ended, and then which have come. Returns the places of those that
    /// came.
    pub(super) fn look(&mut self, object: &Object) -> std::io::Result<Vec<u32>> {
        while let Some(place) = object.pop("ended")? {
            self.ended.push(place);
        }
        self.look_for_left(object)?;
        self.newcomers(object)
    }

    /// Returns the places of vCPUs that have come. They have ids before anything is reported of
    /// them.
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

    /// Returns the vCPU of this place.
    pub(super) fn at(&self, place: u32) -> Option<VcpuId> {
        self.owners.get(place as usize).copied().flatten()
    }

    /// Returns the vCPUs that have a place, by id.
    pub(super) fn present(&self) -> Vec<(VcpuId, u32)> {
        let owners = (0..).zip(&self.owners);
        let mut present: Vec<(VcpuId, u32)> = owners
            .filter_map(|(place, owner)| Some(((*owner)?, place)))
            .collect();
        present.sort_unstable();
        present
    }

    /// Frees the place of a thread that is no vCPU any more, after it has left its CPU. The thread
    /// may live on. Returns whether this is done: not while it waits for a CPU, because the
    /// kernel's count of waiting threads has it until it gets one.
    pub(super) fn vacate(
        &mut self,
        object: &Object,
        (id, place): (VcpuId, u32),
    ) -> std::io::Result<bool> {
        let Some(vcpu) = object.value::<WireVcpu>("vcpus", place)? else {
            return Ok(true);
        };
        // If the vCPU is gone, or the thread is another vCPU by now, the kernel reports it itself.
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

    /// Moves places to `ended` that no thread and no CPU refers to any more.
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

    /// Returns the places for a last reading, by the ids of their vCPUs.
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

    /// Clears a place for the next vCPU.
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
