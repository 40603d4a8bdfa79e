//! What pass 1 keeps of the host's recording: its vCPUs, their clocks and their exits.

use std::collections::BTreeMap;

use vmnoise_events::{Vcpu, VcpuClock, VcpuExit, VcpuId};

use super::guest_clock::GuestClock;

/// One vCPU as the host told it.
#[derive(Debug, Default)]
pub(super) struct ToldVcpu {
    /// Its latest definition.
    pub(super) vcpu: Option<Vcpu>,
    pub(super) clock: GuestClock,
    /// Begin and end on the host's CLOCK_MONOTONIC; those that halted are left out: they say
    /// that the guest slept.
    pub(super) exits: Vec<(u64, u64)>,
    /// How many exits left from each of the host's CPUs.
    left_from: BTreeMap<u32, u64>,
}

/// All of them, by id.
#[derive(Debug, Default)]
pub(super) struct ToldVcpus(Vec<ToldVcpu>);

impl ToldVcpus {
    pub(super) fn define(&mut self, vcpu: &Vcpu) {
        let place = vcpu.id.0 as usize;
        // Ids are given out without holes: another one is of a damaged stream.
        if place == self.0.len() {
            self.0.push(ToldVcpu::default());
        }
        if let Some(told) = self.0.get_mut(place) {
            told.vcpu = Some(vcpu.clone());
        }
    }

    pub(super) fn add_clock(&mut self, clock: &VcpuClock) {
        if let Some(told) = self.0.get_mut(clock.vcpu.0 as usize) {
            told.clock.add(clock);
        }
    }

    /// Takes an exit; `false` where it is not worth a place: shorter than anybody feels, or of
    /// a guest that slept.
    pub(super) fn add_exit(&mut self, exit: &VcpuExit, threshold_ns: u64, has_room: bool) -> bool {
        let Some(told) = self.0.get_mut(exit.vcpu.0 as usize) else {
            return false;
        };
        let of = &exit.exit;
        *told.left_from.entry(of.exit_cpu).or_default() += 1;
        let is_kept = has_room
            && of.split.halted == 0
            && of.start_mono_ns <= of.end_mono_ns
            && of.dur_ns() >= threshold_ns;
        if is_kept {
            told.exits.push((of.start_mono_ns, of.end_mono_ns));
        }
        is_kept
    }

    /// Sorts what came in the order of ends.
    pub(super) fn sort(&mut self) {
        for told in &mut self.0 {
            told.exits.sort_unstable();
        }
    }

    pub(super) fn get(&self, id: VcpuId) -> Option<&ToldVcpu> {
        self.0.get(id.0 as usize)
    }

    /// Those that were defined.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Vcpu, &ToldVcpu)> {
        let defined = self.0.iter();
        defined.filter_map(|told| Some((told.vcpu.as_ref()?, told)))
    }
}

impl ToldVcpu {
    /// On which of the host's CPUs it was most often.
    pub(super) fn home_cpu(&self) -> Option<u32> {
        let most = self.left_from.iter().max_by_key(|(_, count)| **count);
        most.map(|(cpu, _)| *cpu)
    }
}

/// What people read of a vCPU.
pub(super) fn name_of(vcpu: &Vcpu) -> String {
    match vcpu.number {
        Some(number) => format!("vCPU {number} of VM {}", vm_name_of(vcpu)),
        None => format!("the vCPU of thread {} of VM {}", vcpu.tid, vm_name_of(vcpu)),
    }
}

/// What people read of its VM.
pub(super) fn vm_name_of(vcpu: &Vcpu) -> String {
    format!("{} (process {})", vcpu.vm_name, vcpu.vmm_pid)
}
