//! The budget of one gap: who took which part of it.

use vmnoise_events::Share;

use crate::interference::Interference;
use crate::part::Part;

/// One gap, explained. The `ns` of all parts add up to `dur_ns` exactly.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Budget {
    /// The CPU whose time was missing.
    pub cpu: u32,
    /// Begin, CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// Begin, as the workload stamped it: cycles of the host's TSC.
    pub start_tsc: u64,
    /// End on the same clock.
    pub end_tsc: u64,
    /// Length in nanoseconds.
    pub dur_ns: u64,
    /// Largest first; equal ones in the order of [`Share`], then of their sources.
    pub parts: Vec<Part>,
    /// Raw advance of the hypervisor's steal clock over the gap, in nanoseconds;
    /// no share. 0 where the run has no steal clock.
    pub steal_clock_ns: u64,
    /// Exits handled in the host kernel; 0 where nothing shows them. One that a host's
    /// recording lays into two gaps counts in the first.
    pub light_exits: u32,
    /// Exits that went to the VMM; the same rule.
    pub heavy_exits: u32,
    /// Reloads of the vCPU by the hypervisor.
    pub reloads: u32,
    /// Whether the recording of a host tells of all of it.
    pub witnessed: bool,
    /// Exits that the host's recording lays into it, at least in part.
    pub exits_below: u32,
    /// What is booked as `kvm` of exits in which others had part, and could not be held against
    /// what KVM usually takes: too few exits had shown it. Nanoseconds; of an exit that the
    /// host's recording tells, its whole `kvm`, in the first gap that meets it.
    pub unbounded_kvm_ns: u64,
    /// How many activities overlapped it, by class.
    pub interference: Interference,
    /// Interferences that the workload's counter saw in it and no activity shows:
    /// their records were lost, so what is booked to the kernel's own work is a lower
    /// bound. `None` where there was no counter.
    pub lost_activities: Option<u64>,
}

impl Budget {
    /// Whether an interference lay in it that no activity shows.
    pub fn is_incomplete(&self) -> bool {
        self.lost_activities.is_some_and(|lost| lost > 0)
    }

    /// Whether nobody witnessed anything in this gap: all of it is residual.
    pub fn is_bare(&self) -> bool {
        !self.is_incomplete()
            && self.exits_below == 0
            && matches!(self.parts.as_slice(), [only] if only.share.is_residual() && only.count == 0)
    }

    /// Whether the vCPU left its guest in this gap, by its own counters or a witness.
    pub fn holds_exit(&self) -> bool {
        let handled = |part: &Part| matches!(part.share, Share::Kvm | Share::Vmm);
        self.exits_below > 0
            || self.light_exits > 0
            || self.heavy_exits > 0
            || self.reloads > 0
            || self.parts.iter().any(handled)
    }

    /// End, CLOCK_MONOTONIC in nanoseconds.
    pub fn end_mono_ns(&self) -> u64 {
        self.start_mono_ns.saturating_add(self.dur_ns)
    }

    /// What is booked under `share`, in nanoseconds.
    pub fn ns_of(&self, share: Share) -> u64 {
        let booked = self.parts.iter().filter(|part| part.share == share);
        booked.map(|part| part.ns).sum()
    }

    /// What no witness explains, in nanoseconds.
    pub fn residual_ns(&self) -> u64 {
        self.parts
            .iter()
            .filter(|part| part.share.is_residual())
            .map(|part| part.ns)
            .sum()
    }
}
