//! An explained gap or wake-up: its parts, by culprit.

use vmnoise_events::Share;

use crate::interference::InterferenceColumns;
use crate::part::Part;
use crate::phase::Phase;

/// An interval of lost time on a CPU. The `ns` of all parts add up to `dur_ns` exactly.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interval {
    /// CPU whose time was missing, or CPU of the task.
    pub cpu: u32,
    /// Start of the gap, or the time at which the task was to run, CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// Length of the gap, or the time from `start_mono_ns` until the task read the clock in user
    /// space, in nanoseconds.
    pub dur_ns: u64,
    /// Parts, the largest of each phase first; equal ones in the order of [`Share`], then of their
    /// sources.
    pub parts: Vec<Part>,
    /// Whether a host's recording covers the whole interval.
    pub witnessed: bool,
    /// Whether the steal clock advanced by more than the length of the interval, or of one of its
    /// phases.
    pub steal_clamped: bool,
    /// Whether the interval was long enough to end the run.
    pub hits_limit: bool,
    /// Other facts about the interval.
    pub detail: Detail,
}

/// Facts that only a gap has, or only a wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Facts about a gap.
    Gap(GapDetail),
    /// Facts about a wake-up.
    Wakeup(WakeupDetail),
}

/// Other facts about a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GapDetail {
    /// Start as stamped by the workload, in cycles of the host's TSC.
    pub start_tsc: u64,
    /// End on the same clock.
    pub end_tsc: u64,
    /// Raw advance of the hypervisor's steal clock over the gap, in nanoseconds; not a share. 0 if
    /// the run has no steal clock.
    pub steal_clock_ns: u64,
    /// Number of exits that the host's kernel handled; 0 if no probe shows them. If an exit in the
    /// host's recording overlaps two gaps, it counts for the first gap.
    pub light_exits: u32,
    /// Exits that went to the VMM, under the same rule.
    pub heavy_exits: u32,
    /// Reloads of the vCPU by the hypervisor.
    pub reloads: u32,
    /// Exits of the host's recording that overlap the gap.
    pub exits_below: u32,
    /// Time of `kvm` without a bound, in nanoseconds: others took part in the exits, and too few
    /// exits show KVM's usual time. For an exit that only the host's recording has: its whole
    /// `kvm`, in the first gap that overlaps it.
    pub unbounded_kvm_ns: u64,
    /// Number of activities that overlap the interval, by class.
    pub interference: InterferenceColumns,
    /// Interferences that the workload's counter saw in it but no activity shows. Their records
    /// were lost, so the time of the kernel's own work is a lower bound. `None` without a counter.
    pub lost_activities: Option<u64>,
}

/// Other facts about a wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WakeupDetail {
    /// Time until the timer's interrupt handled this timer; `None` if that was not seen.
    pub irq_ns: Option<u64>,
    /// Time until the task was switched in; `None` if that was not seen.
    pub thread_ns: Option<u64>,
    /// Length of each phase, in the order of [`Phase::ALL`]; `None` if a step was not seen.
    pub phases_ns: [Option<u64>; 5],
    /// Time whose phase is unknown, in nanoseconds.
    pub unsplit_ns: u64,
    /// Number of earlier expiries that passed before the task could set its timer for them.
    pub missed: u32,
}

impl Default for Detail {
    fn default() -> Detail {
        Detail::Gap(GapDetail::default())
    }
}

impl Interval {
    /// Returns the facts about a gap; `None` for a wake-up.
    pub fn gap(&self) -> Option<&GapDetail> {
        self.detail.gap()
    }

    /// Returns the facts about a wake-up; `None` for a gap.
    pub fn wakeup(&self) -> Option<&WakeupDetail> {
        self.detail.wakeup()
    }

    /// Returns the latency of a task until its interrupt, its thread, and user space; `None` if
    /// that was not seen.
    pub fn latencies_ns(&self) -> [Option<u64>; 3] {
        let wakeup = self.wakeup();
        let irq_ns = wakeup.and_then(|wakeup| wakeup.irq_ns);
        let thread_ns = wakeup.and_then(|wakeup| wakeup.thread_ns);
        [irq_ns, thread_ns, Some(self.dur_ns)]
    }

    /// Returns whether the interval contains an interference that no activity shows.
    pub fn is_incomplete(&self) -> bool {
        let lost = self.gap().and_then(|gap| gap.lost_activities);
        lost.is_some_and(|lost| lost > 0)
    }

    /// Returns whether the interval is a gap without any explained part: the whole gap is residual.
    pub fn is_unattributed(&self) -> bool {
        !self.is_incomplete()
            && self.gap().is_some_and(|gap| gap.exits_below == 0)
            && matches!(self.parts.as_slice(), [only] if only.share.is_residual() && only.count == 0)
    }

    /// Returns whether the vCPU left its guest in this gap, by its own counters or a probe.
    pub fn holds_exit(&self) -> bool {
        let handled = |part: &Part| matches!(part.share, Share::Kvm | Share::Vmm);
        let is_counted = |gap: &GapDetail| {
            gap.exits_below > 0 || gap.light_exits > 0 || gap.heavy_exits > 0 || gap.reloads > 0
        };
        self.gap().is_some_and(is_counted) || self.parts.iter().any(handled)
    }

    /// Returns the end, CLOCK_MONOTONIC in nanoseconds.
    pub fn end_mono_ns(&self) -> u64 {
        self.start_mono_ns.saturating_add(self.dur_ns)
    }

    /// Returns the time of `share`, in nanoseconds.
    pub fn ns_of(&self, share: Share) -> u64 {
        let booked = self.parts.iter().filter(|part| part.share == share);
        booked.map(|part| part.ns).sum()
    }

    /// Returns the time that no probe explains, in nanoseconds.
    pub fn residual_ns(&self) -> u64 {
        self.parts
            .iter()
            .filter(|part| part.share.is_residual())
            .map(|part| part.ns)
            .sum()
    }
}

impl Detail {
    /// Returns the facts about a gap; `None` for a wake-up.
    pub fn gap(&self) -> Option<&GapDetail> {
        match self {
            Detail::Gap(gap) => Some(gap),
            Detail::Wakeup(_) => None,
        }
    }

    /// Returns the facts about a wake-up; `None` for a gap.
    pub fn wakeup(&self) -> Option<&WakeupDetail> {
        match self {
            Detail::Wakeup(wakeup) => Some(wakeup),
            Detail::Gap(_) => None,
        }
    }
}

impl WakeupDetail {
    /// Returns the length of this phase; `None` if unknown.
    pub fn phase_ns(&self, phase: Phase) -> Option<u64> {
        self.phases_ns[phase as usize]
    }
}
