//! A gap or a wake-up, explained: who took which part of it.

use vmnoise_events::Share;

use crate::interference::Interference;
use crate::part::Part;
use crate::phase::Phase;

/// A stretch of a CPU's time that somebody took. The `ns` of all parts add up to `dur_ns` exactly.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interval {
    /// The CPU whose time was missing, or that of the task.
    pub cpu: u32,
    /// Begin of the gap, or when the task was to run: CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// Length of the gap, or from then until the task read the clock in user space; nanoseconds.
    pub dur_ns: u64,
    /// The largest of each phase first; equal ones in the order of [`Share`], then of their
    /// sources.
    pub parts: Vec<Part>,
    /// Whether the recording of a host covers all of it.
    pub witnessed: bool,
    /// The steal clock claimed more than it, or a phase of it, was long.
    pub steal_clamped: bool,
    /// It was long enough to end the run.
    pub hits_limit: bool,
    /// What else is known of it.
    pub detail: Detail,
}

/// What a gap has and a wake-up has not, and the other way round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Of a gap.
    Gap(GapDetail),
    /// Of a wake-up.
    Wakeup(WakeupDetail),
}

/// What else is known of a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GapDetail {
    /// Begin, as the workload stamped it: cycles of the host's TSC.
    pub start_tsc: u64,
    /// End on the same clock.
    pub end_tsc: u64,
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
    /// Exits that the host's recording lays into it, at least in part.
    pub exits_below: u32,
    /// What is booked as `kvm` of exits in which others had part, and could not be held against
    /// what KVM usually takes: too few exits had shown it. Nanoseconds; of an exit that only
    /// the host's recording has, its whole `kvm`, in the first gap that meets it.
    pub unbounded_kvm_ns: u64,
    /// How many activities overlapped it, by class.
    pub interference: Interference,
    /// Interferences that the workload's counter saw in it and no activity shows:
    /// their records were lost, so what is booked to the kernel's own work is a lower
    /// bound. `None` where there was no counter.
    pub lost_activities: Option<u64>,
}

/// What else is known of a wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WakeupDetail {
    /// Until the timer's interrupt came to this timer; `None` if that was not seen.
    pub irq_ns: Option<u64>,
    /// Until the task was switched in; `None` if that was not seen.
    pub thread_ns: Option<u64>,
    /// How long each phase was, by the order of [`Phase::ALL`]; `None` where a step was not
    /// seen.
    pub phases_ns: [Option<u64>; 5],
    /// Time whose phase is unknown.
    pub unsplit_ns: u64,
    /// Expiries before this one that nobody could ask for.
    pub missed: u32,
}

impl Default for Detail {
    fn default() -> Detail {
        Detail::Gap(GapDetail::default())
    }
}

impl Interval {
    /// What is known of a gap; `None` of a wake-up.
    pub fn gap(&self) -> Option<&GapDetail> {
        self.detail.gap()
    }

    /// What is known of a wake-up; `None` of a gap.
    pub fn wakeup(&self) -> Option<&WakeupDetail> {
        self.detail.wakeup()
    }

    /// How late a task was in the interrupt, in its thread, and in user space; `None` where that
    /// was not seen.
    pub fn latencies_ns(&self) -> [Option<u64>; 3] {
        let wakeup = self.wakeup();
        let irq_ns = wakeup.and_then(|wakeup| wakeup.irq_ns);
        let thread_ns = wakeup.and_then(|wakeup| wakeup.thread_ns);
        [irq_ns, thread_ns, Some(self.dur_ns)]
    }

    /// Whether an interference lay in it that no activity shows.
    pub fn is_incomplete(&self) -> bool {
        let lost = self.gap().and_then(|gap| gap.lost_activities);
        lost.is_some_and(|lost| lost > 0)
    }

    /// Whether it is a gap and nobody witnessed anything in it: all of it is residual.
    pub fn is_unattributed(&self) -> bool {
        !self.is_incomplete()
            && self.gap().is_some_and(|gap| gap.exits_below == 0)
            && matches!(self.parts.as_slice(), [only] if only.share.is_residual() && only.count == 0)
    }

    /// Whether the vCPU left its guest in this gap, by its own counters or a witness.
    pub fn holds_exit(&self) -> bool {
        let handled = |part: &Part| matches!(part.share, Share::Kvm | Share::Vmm);
        let is_counted = |gap: &GapDetail| {
            gap.exits_below > 0 || gap.light_exits > 0 || gap.heavy_exits > 0 || gap.reloads > 0
        };
        self.gap().is_some_and(is_counted) || self.parts.iter().any(handled)
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

impl Detail {
    /// Of a gap.
    pub fn gap(&self) -> Option<&GapDetail> {
        match self {
            Detail::Gap(gap) => Some(gap),
            Detail::Wakeup(_) => None,
        }
    }

    /// Of a wake-up.
    pub fn wakeup(&self) -> Option<&WakeupDetail> {
        match self {
            Detail::Wakeup(wakeup) => Some(wakeup),
            Detail::Gap(_) => None,
        }
    }
}

impl WakeupDetail {
    /// How long this phase was; `None` where that is unknown.
    pub fn phase_ns(&self, phase: Phase) -> Option<u64> {
        self.phases_ns[phase as usize]
    }
}
