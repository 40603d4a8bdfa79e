//! Interferences counted as osnoise counts them: by the counter that the workload
//! reads with its clock, or else by the activities that gaps show.

use std::ops::AddAssign;

use serde::Serialize;
use vmnoise_events::{Activity, ActivityKind, InterferenceCounts};

use crate::visibility::Visibility;

/// The last five columns of osnoise's table (kernel/trace/trace_osnoise.c). Where the
/// workload read the interference counters, the classes count all that interfered
/// while it polled, in gaps or not; where there were none, what overlapped the gaps.
/// The classes are those of the traced kernel, which for a microVM is its host. `None`
/// where the run could not see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Interference {
    /// Gaps in which nothing interfered, by the counter or else by the activities:
    /// hardware, or anything below this kernel. An observed thread has none, because its
    /// gaps are activities.
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
    pub(crate) fn none(visibility: &Visibility) -> Interference {
        let seen = |is_seen: bool| is_seen.then_some(0);
        let witnesses = visibility.witnesses();
        Interference {
            hw: seen(witnesses.irq && witnesses.sched && !visibility.is_observed()),
            nmi: seen(witnesses.nmi),
            irq: seen(witnesses.irq),
            softirq: seen(witnesses.softirq),
            thread: seen(witnesses.sched),
        }
    }

    /// Of one gap, its counter if there is one, and the activities that overlap it. Where records may have been
    /// lost, no gap is known to be without interference.
    pub(crate) fn of_gap(
        visibility: &Visibility,
        counter: Option<u32>,
        activities: &[Activity],
        may_have_lost: bool,
    ) -> Interference {
        let mut counted = Interference::none(visibility);
        // The counter knows better than an overlap whether an interference at the
        // edge was inside, but it does not know why the thread itself did not run.
        let untouched = match counter {
            Some(count) => count == 0 && activities.iter().all(|it| it.kind.is_interference()),
            None => activities.is_empty(),
        };
        if let Some(hw) = &mut counted.hw {
            *hw = u64::from(untouched && !may_have_lost);
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
                | ActivityKind::Blocked
                | ActivityKind::Stopped => continue,
            };
            *class = Some(class.unwrap_or(0) + 1);
        }
        counted
    }

    /// These, with the classes as the workload's counters tell them.
    pub(crate) fn reported_by(
        self,
        visibility: &Visibility,
        counts: Option<InterferenceCounts>,
    ) -> Interference {
        let Some(counts) = counts else {
            return self;
        };
        let witnesses = visibility.witnesses();
        Interference {
            hw: self.hw,
            nmi: witnesses.nmi.then_some(counts.nmi),
            irq: witnesses.irq.then_some(counts.irq),
            softirq: witnesses.softirq.then_some(counts.softirq),
            thread: witnesses.sched.then_some(counts.thread),
        }
    }

    /// All of these classes, as far as they are known.
    pub fn activities(&self) -> u64 {
        [self.nmi, self.irq, self.softirq, self.thread]
            .into_iter()
            .flatten()
            .fold(0, u64::saturating_add)
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
fn add_known(sum: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0).saturating_add(more));
    }
}
