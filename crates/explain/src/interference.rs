//! Activities counted as osnoise counts its interferences.

use std::ops::AddAssign;

use serde::Serialize;
use vmnoise_events::{Activity, ActivityKind};

use crate::sight::Sight;

/// What overlapped the gaps, counted by class: the last five columns of osnoise's
/// table (kernel/trace/trace_osnoise.c). The classes are those of the traced kernel,
/// which for a microVM is its host. `None` where the run could not see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Interference {
    /// Gaps that no activity overlapped: hardware, or anything below this kernel. An
    /// observed thread has none, because its gaps are activities.
    pub hw: Option<u64>,
    /// Non-maskable interrupts.
    pub nmi: Option<u64>,
    /// Interrupts.
    pub irq: Option<u64>,
    /// Soft interrupts.
    pub softirq: Option<u64>,
    /// Turns of other threads.
    pub thread: Option<u64>,
}

impl Interference {
    /// Of a run without gaps: 0 of all that it could have seen.
    pub(crate) fn none(sight: &Sight) -> Interference {
        let seen = |is_seen: bool| is_seen.then_some(0);
        let witnesses = sight.witnesses();
        Interference {
            hw: seen(witnesses.irq && witnesses.sched && !sight.is_observed()),
            nmi: seen(witnesses.nmi),
            irq: seen(witnesses.irq),
            softirq: seen(witnesses.softirq),
            thread: seen(witnesses.sched),
        }
    }

    /// Of one gap and the activities that overlap it.
    pub(crate) fn of_gap(sight: &Sight, activities: &[Activity]) -> Interference {
        let mut counted = Interference::none(sight);
        if activities.is_empty()
            && let Some(hw) = &mut counted.hw
        {
            *hw = 1;
        }
        for activity in activities {
            let class = match activity.kind {
                ActivityKind::Nmi => &mut counted.nmi,
                ActivityKind::Irq => &mut counted.irq,
                ActivityKind::Softirq => &mut counted.softirq,
                ActivityKind::Thread => &mut counted.thread,
                ActivityKind::Exit
                | ActivityKind::Vmm
                | ActivityKind::Throttled
                | ActivityKind::Blocked => continue,
            };
            *class = Some(class.unwrap_or(0) + 1);
        }
        counted
    }

    /// All activities of these classes, as far as they are known.
    pub fn activities(&self) -> u64 {
        [self.nmi, self.irq, self.softirq, self.thread]
            .into_iter()
            .flatten()
            .sum()
    }
}

impl AddAssign for Interference {
    fn add_assign(&mut self, more: Interference) {
        add_known(&mut self.hw, more.hw);
        add_known(&mut self.nmi, more.nmi);
        add_known(&mut self.irq, more.irq);
        add_known(&mut self.softirq, more.softirq);
        add_known(&mut self.thread, more.thread);
    }
}

/// Sums run over what is known.
pub(crate) fn add_known(sum: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0) + more);
    }
}
