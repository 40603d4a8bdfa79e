//! State of each CPU that the BPF programs keep in mapped memory. Access needs no system call.

use std::{
    mem::offset_of,
    sync::atomic::Ordering::{Acquire, Relaxed, Release},
};

use libbpf_rs::Object;
use vmnoise_events::{
    InterferenceSlot, OwnCost, TimerSlot,
    exit_counts::{HEAVY_OFFSET, LIGHT_OFFSET, SLOT_BYTES},
};

use crate::mapped_array::MappedArray;
use crate::maps::Maps;
use crate::wire::{CpuState, ExitCounts, Mode};

/// The live exit counters that BPF programs write. There is one slot per CPU of this machine, in
/// the layout of [`vmnoise_events::exit_counts`].
#[derive(Debug)]
pub(crate) struct MappedCounts(MappedArray<ExitCounts>);

impl MappedCounts {
    pub(crate) fn map(object: &Object) -> std::io::Result<Self> {
        object.mapped("exits").map(MappedCounts)
    }

    /// Returns the number of mapped bytes, a whole number of pages.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns how many exits of this CPU's vCPU the host's kernel has handled alone. It is also 0
    /// if `kvm_exit` never fires. [`crate::Tracer::light_exits`] distinguishes the two cases.
    pub(crate) fn light(&self, cpu: u32) -> u64 {
        self.count(cpu, LIGHT_OFFSET)
    }

    /// Returns how many exits of this CPU's vCPU went to the VMM.
    pub(crate) fn heavy(&self, cpu: u32) -> u64 {
        self.count(cpu, HEAVY_OFFSET)
    }

    fn count(&self, cpu: u32, offset: usize) -> u64 {
        const { assert!(size_of::<ExitCounts>() == SLOT_BYTES) };
        self.0
            .u64(cpu, offset)
            .map_or(0, |count| count.load(Relaxed))
    }
}

/// Largest number of attempts to read a consistent state. Attempts fail while the thread comes and
/// goes.
const READINGS: usize = 100;

/// State of an observed thread on one CPU. Times are CLOCK_MONOTONIC in ns; 0 means none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whereabouts {
    pub(crate) here_since_ns: u64,
    /// Value of the CPU's steal clock at `here_since_ns`, in ns.
    pub(crate) here_since_steal_ns: u64,
    /// Total time of the thread's earlier stays on this CPU, in ns. `stays_steal_ns` is the steal
    /// time during them.
    pub(crate) stays_ns: u64,
    pub(crate) stays_steal_ns: u64,
    /// Whether the thread runs. If not, it stopped running at `off_since_ns`.
    pub(crate) runs: bool,
    pub(crate) off_since_ns: u64,
    /// Begin of the outermost interrupt in progress; `None` if there is none.
    pub(crate) irq_since_ns: Option<u64>,
    pub(crate) softirq_since_ns: u64,
}

/// State of each CPU. The BPF programs write this state.
#[derive(Debug)]
pub(crate) struct MappedCpus(MappedArray<CpuState>);

impl MappedCpus {
    pub(crate) fn map(object: &Object) -> std::io::Result<Self> {
        object.mapped("cpus").map(MappedCpus)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = u32> {
        (0..self.0.slots()).map(|index| index as u32)
    }

    pub(crate) fn exists(&self, cpu: u32) -> bool {
        (cpu as usize) < self.0.slots()
    }

    pub(crate) fn set_mode(&self, cpu: u32, mode: Mode) {
        if let Some(word) = self.0.u32(cpu, offset_of!(CpuState, mode)) {
            word.store(mode.0, Relaxed);
        }
    }

    /// Returns when the watched thread of this CPU was stopped or lost the CPU (CLOCK_MONOTONIC in
    /// ns); `None` if it has the CPU.
    pub(crate) fn held_since(&self, cpu: u32) -> Option<u64> {
        let mode = self.0.u32(cpu, offset_of!(CpuState, mode))?;
        let off = self.0.u64(cpu, offset_of!(CpuState, vcpu_off.mono_ns))?;
        let is_held = mode.load(Acquire) == Mode::VMNOISE_HELD.0;
        // The thread may continue between these two reads.
        let since_ns = off.load(Acquire);
        (is_held && since_ns > 0).then_some(since_ns)
    }

    pub(crate) fn set_vcpu(&self, cpu: u32, tid: u32) {
        if let Some(word) = self.0.u32(cpu, offset_of!(CpuState, vcpu_tid)) {
            word.store(tid, Relaxed);
        }
    }

    /// Tells the programs that a task can be preempted in a softirq on this CPU.
    pub(crate) fn set_softirq_preemptible(&self, cpu: u32) {
        if let Some(word) = self.0.u32(cpu, offset_of!(CpuState, softirq_preemptible)) {
            word.store(1, Relaxed);
        }
    }

    /// Makes the programs report only what the watched thread loses while it is on this CPU.
    pub(crate) fn set_observed(&self, cpu: u32) {
        if let Some(word) = self.0.u32(cpu, offset_of!(CpuState, observed)) {
            word.store(1, Relaxed);
        }
    }

    /// Stores that the watched thread is on this CPU since `mono_ns`, unless a program has stored
    /// this.
    pub(crate) fn set_here(&self, cpu: u32, mono_ns: u64, steal_ns: u64) {
        let steal = self.0.u64(cpu, offset_of!(CpuState, here.steal_ns));
        let mono = self.0.u64(cpu, offset_of!(CpuState, here.mono_ns));
        if let (Some(mono), Some(steal)) = (mono, steal)
            && mono.load(Relaxed) == 0
        {
            steal.store(steal_ns, Relaxed);
            mono.store(mono_ns, Release);
        }
    }

    /// Undoes [`Self::set_here`], unless a program has stored another time.
    pub(crate) fn unset_here(&self, cpu: u32, mono_ns: u64) {
        if let Some(mono) = self.0.u64(cpu, offset_of!(CpuState, here.mono_ns)) {
            // A value that has changed comes from a program, and is more precise.
            let _ = mono.compare_exchange(mono_ns, 0, Relaxed, Relaxed);
        }
    }

    /// Returns the state of the observed thread on a CPU. All its values are from one instant.
    pub(crate) fn whereabouts(&self, cpu: u32) -> Option<Whereabouts> {
        let u64 = |offset| Some(self.0.u64(cpu, offset)?.load(Acquire));
        let u32 = |offset| Some(self.0.u32(cpu, offset)?.load(Acquire));
        // The loop repeats if the thread came or went between two reads.
        for _ in 0..READINGS {
            let here_since_ns = u64(offset_of!(CpuState, here.mono_ns))?;
            let found = Whereabouts {
                here_since_ns,
                here_since_steal_ns: u64(offset_of!(CpuState, here.steal_ns))?,
                stays_ns: u64(offset_of!(CpuState, here_ns))?,
                stays_steal_ns: u64(offset_of!(CpuState, here_steal_ns))?,
                off_since_ns: u64(offset_of!(CpuState, vcpu_off.mono_ns))?,
                runs: u64(offset_of!(CpuState, switched_ns))? == 0
                    || u32(offset_of!(CpuState, running_tid))?
                        == u32(offset_of!(CpuState, vcpu_tid))?,
                irq_since_ns: (u32(offset_of!(CpuState, irq_depth))? > 0)
                    .then_some(u64(offset_of!(CpuState, irqs))?),
                softirq_since_ns: u64(offset_of!(CpuState, softirq.start.mono_ns))?,
            };
            if u64(offset_of!(CpuState, here.mono_ns))? == here_since_ns {
                return Some(found);
            }
        }
        None
    }

    pub(crate) fn exits_fire(&self, cpu: u32) -> bool {
        self.0
            .u32(cpu, offset_of!(CpuState, exits_fire))
            .is_some_and(|word| word.load(Relaxed) != 0)
    }

    /// Returns the address of the CPU's run queue; `None` if the walk over all tasks did not find
    /// it.
    pub(crate) fn run_queue(&self, cpu: u32) -> Option<u64> {
        let word = self.0.u64(cpu, offset_of!(CpuState, run_queue))?;
        Some(word.load(Relaxed)).filter(|&address| address != 0)
    }

    /// Makes the programs sample the steal clock at this address with every event of the CPU.
    /// `xen`: whether the clock has Xen's layout; otherwise it has KVM's layout.
    pub(crate) fn set_steal_clock(&self, cpu: u32, address: u64, xen: bool) {
        let word = self.0.u64(cpu, offset_of!(CpuState, steal_clock));
        let xen_word = self.0.u32(cpu, offset_of!(CpuState, xen_clock));
        if let (Some(word), Some(xen_word)) = (word, xen_word) {
            xen_word.store(xen.into(), Relaxed);
            word.store(address, Release);
        }
    }

    /// Returns the last result of the program `read_own_steal`: the steal time in ns, and the
    /// version of KVM's clock.
    pub(crate) fn own_steal(&self, cpu: u32) -> Option<(u64, u32)> {
        let steal_ns = self.0.u64(cpu, offset_of!(CpuState, own_steal_ns))?;
        let version = self.0.u32(cpu, offset_of!(CpuState, own_version))?;
        Some((steal_ns.load(Relaxed), version.load(Relaxed)))
    }

    /// Returns the cost of the programs so far, on all CPUs; `None` if no run was timed yet. The
    /// cost is extrapolated from the timed runs.
    pub(crate) fn own_cost(&self) -> Option<OwnCost> {
        let to_come = self.0.sum(offset_of!(CpuState, until_timed));
        let bpf_runs = self
            .0
            .sum(offset_of!(CpuState, runs))
            .saturating_sub(to_come);
        let timed_runs = self.0.sum(offset_of!(CpuState, timed_runs));
        let timed_ns = self.0.sum(offset_of!(CpuState, timed_ns));
        let all_ns = u128::from(timed_ns) * u128::from(bpf_runs);
        let bpf_ns = all_ns.checked_div(u128::from(timed_runs))?;
        Some(OwnCost {
            bpf_runs,
            bpf_ns: u64::try_from(bpf_ns).unwrap_or(u64::MAX),
        })
    }

    /// Returns the interference counters of a CPU; `None` if there is no such CPU.
    pub(crate) fn interference(&self, cpu: u32) -> Option<&InterferenceSlot> {
        let offset = offset_of!(CpuState, interference);
        let slot = self.0.field::<InterferenceSlot>(cpu, offset)?;
        // SAFETY: aligned and inside the mapping, which lives as long as `self`. The slot consists
        // of atomic words, and BPF writes it in whole words.
        Some(unsafe { slot.as_ref() })
    }

    /// Returns the times of the current wake-up on a CPU; `None` if there is no such CPU.
    pub(crate) fn timer(&self, cpu: u32) -> Option<&TimerSlot> {
        let slot = self
            .0
            .field::<TimerSlot>(cpu, offset_of!(CpuState, timer))?;
        // SAFETY: as in `interference`.
        Some(unsafe { slot.as_ref() })
    }

    pub(crate) fn ring_full(&self) -> u64 {
        self.0.sum(offset_of!(CpuState, ring_full))
    }

    pub(crate) fn unpaired(&self) -> u64 {
        self.0.sum(offset_of!(CpuState, unpaired))
    }
}
