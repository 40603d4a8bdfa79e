//! Gap or wake-up, divided into parts by culprit.

use vmnoise_events::Share;

use crate::interference::InterferenceColumns;
use crate::part::Part;
use crate::phase::Phase;

/// An interval of lost time on a CPU. The `ns` of all parts add up to `dur_ns` exactly.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interval {
    /// CPU that observed the gap, or CPU of the task.
    pub cpu: u32,
    /// Start of the gap, or the time at which the task was to run, CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// Length of the gap, or the time from `start_mono_ns` until the task read the clock in user
    /// space, in nanoseconds.
    pub dur_ns: u64,
    /// Parts, the largest of each phase first. Parts of equal size are ordered by [`Share`], then
    /// by source.
    pub parts: Vec<Part>,
    /// Whether a host's recording covers the whole interval.
    pub witnessed: bool,
    /// Whether the steal clock advanced by more than the whole interval, or by more than one of its
    /// phases.
    pub steal_clamped: bool,
    /// Whether the interval reached a limit that ends the run.
    pub hits_limit: bool,
    /// Facts that only gaps have, or facts that only wake-ups have.
    pub detail: Detail,
}

/// Facts that only gaps have, or facts that only wake-ups have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Facts about a gap.
    Gap(GapDetail),
    /// Facts about a wake-up.
    Wakeup(WakeupDetail),
}

/// Facts that only gaps have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GapDetail {
    /// Start of the gap as the workload read it, in cycles of the host's TSC.
    pub start_tsc: u64,
    /// End of the gap on the same clock.
    pub end_tsc: u64,
    /// Raw advance of the hypervisor's steal clock over the gap, in nanoseconds; not a share. 0 if
    /// the run has no steal clock.
    pub steal_clock_ns: u64,
    /// Number of exits that the host's kernel handled; 0 if no probe shows these exits. An exit in
    /// the host's recording that overlaps two gaps counts for the first gap.
    pub light_exits: u32,
    /// Number of exits that went to the VMM, under the same rule as `light_exits`.
    pub heavy_exits: u32,
    /// Number of reloads of the vCPU by the hypervisor.
    pub reloads: u32,
    /// Number of exits in the host's recording that overlap the gap.
    pub exits_below: u32,
    /// Time of the share `kvm` without an upper bound, in nanoseconds: other work took part in the
    /// exits, and too few exits show KVM's usual time. For an exit that only the host's recording
    /// contains, this is the exit's whole `kvm`, in the first gap that overlaps the exit.
    pub unbounded_kvm_ns: u64,
    /// Number of activities that overlap the gap, by class.
    pub interference: InterferenceColumns,
    /// Number of interferences that the workload's counter saw in the gap and no activity shows.
    /// Their records were lost, so the time of the kernel's own work is a lower bound. `None`
    /// without a counter.
    pub lost_activities: Option<u64>,
}

/// Facts that only wake-ups have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WakeupDetail {
    /// Time from the planned expiry until the timer's interrupt handled this timer, in nanoseconds;
    /// `None` if no probe saw this.
    pub irq_ns: Option<u64>,
    /// Time from the planned expiry until the task was switched in, in nanoseconds; `None` if no
    /// probe saw the switch.
    pub thread_ns: Option<u64>,
    /// Length of each phase in nanoseconds, in the order of [`Phase::ALL`]; `None` if an event that
    /// delimits the phase is missing.
    pub phases_ns: [Option<u64>; 5],
    /// Time whose phase is unknown, in nanoseconds.
    pub unsplit_ns: u64,
    /// Number of earlier expiries that passed before the task could set its timer to them.
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

    /// Returns the latencies of a task in nanoseconds: until its interrupt, until its thread, and
    /// until user space. A latency is `None` if no probe saw its end.
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

    /// Returns whether the interval is a gap of which no part is explained: the whole gap is
    /// residual.
    pub fn is_unattributed(&self) -> bool {
        !self.is_incomplete()
            && self.gap().is_some_and(|gap| gap.exits_below == 0)
            && matches!(self.parts.as_slice(), [only] if only.share.is_residual() && only.count == 0)
    }

    /// Returns whether the vCPU left its guest in this gap, according to its own counters or a
    /// probe.
    pub fn holds_exit(&self) -> bool {
        let handled = |part: &Part| matches!(part.share, Share::Kvm | Share::Vmm);
        let is_counted = |gap: &GapDetail| {
            gap.exits_below > 0 || gap.light_exits > 0 || gap.heavy_exits > 0 || gap.reloads > 0
        };
        self.gap().is_some_and(is_counted) || self.parts.iter().any(handled)
    }

    /// Returns the end of the interval, CLOCK_MONOTONIC in nanoseconds.
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
    /// Returns the length of this phase in nanoseconds; `None` if unknown.
    pub fn phase_ns(&self, phase: Phase) -> Option<u64> {
        self.phases_ns[phase as usize]
    }
}
