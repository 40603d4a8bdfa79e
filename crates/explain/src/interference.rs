//! Interferences, counted as in osnoise: by the counter that the workload reads with its clock, or
//! else by the activities in gaps.

use std::ops::AddAssign;

use serde::Serialize;
use vmnoise_events::{Activity, ActivityKind, InterferenceCounts};

use crate::visibility::Visibility;

/// The last five columns of osnoise's table (kernel/trace/trace_osnoise.c). If the workload read
/// the interference counters, the classes count all interferences while it polled, in gaps or not.
/// Otherwise, they count activities that overlap gaps. The classes are those of the traced kernel,
/// which for a microVM is its host. `None` if the run could not see the class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct InterferenceColumns {
    /// Gaps without interference, by the counter or else by the activities: time of the hardware,
    /// or of any layer below this kernel. An observed thread has none, because its gaps are
    /// activities.
    pub hw: Option<u64>,
    /// Non-maskable interrupts.
    pub nmi: Option<u64>,
    /// Interrupts.
    pub irq: Option<u64>,
    /// Softirqs.
    pub softirq: Option<u64>,
    /// Turns of other threads.
    pub thread: Option<u64>,
}

impl InterferenceColumns {
    /// Returns the counts of a run without gaps: 0 for every class that it could have seen.
    pub(crate) fn none(visibility: &Visibility) -> InterferenceColumns {
        let seen = |is_seen: bool| is_seen.then_some(0);
        let witnesses = visibility.witnesses();
        InterferenceColumns {
            hw: seen(witnesses.irq && witnesses.sched && !visibility.is_observed()),
            nmi: seen(witnesses.nmi),
            irq: seen(witnesses.irq),
            softirq: seen(witnesses.softirq),
            thread: seen(witnesses.sched),
        }
    }

    /// Returns the counts of one gap, from its counter, if it has one, and the activities that
    /// overlap it.
    pub(crate) fn of_gap(
        visibility: &Visibility,
        counter: Option<u32>,
        activities: &[Activity],
    ) -> InterferenceColumns {
        let mut counted = InterferenceColumns::none(visibility);
        // The counter knows better than an overlap whether an interference at the edge was inside.
        // But it does not know why the thread itself did not run.
        let untouched = match counter {
            Some(count) => count == 0 && activities.iter().all(|it| it.kind.is_interference()),
            None => activities.is_empty(),
        };
        if let Some(hw) = &mut counted.hw {
            *hw = u64::from(untouched);
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

    /// Returns a copy of these counts, in which the classes that the workload counts come from its
    /// counters.
    pub(crate) fn reported_by(
        self,
        visibility: &Visibility,
        counts: Option<InterferenceCounts>,
    ) -> InterferenceColumns {
        let Some(counts) = counts else {
            return self;
        };
        let witnesses = visibility.witnesses();
        InterferenceColumns {
            hw: self.hw,
            nmi: witnesses.nmi.then_some(counts.nmi),
            irq: witnesses.irq.then_some(counts.irq),
            softirq: witnesses.softirq.then_some(counts.softirq),
            thread: witnesses.sched.then_some(counts.thread),
        }
    }

    /// Returns the sum of all classes whose counts are known.
    pub fn activities(&self) -> u64 {
        [self.nmi, self.irq, self.softirq, self.thread]
            .into_iter()
            .flatten()
            .fold(0, u64::saturating_add)
    }
}

impl AddAssign for InterferenceColumns {
    fn add_assign(&mut self, more: InterferenceColumns) {
        add_known(&mut self.hw, more.hw);
        add_known(&mut self.nmi, more.nmi);
        add_known(&mut self.irq, more.irq);
        add_known(&mut self.softirq, more.softirq);
        add_known(&mut self.thread, more.thread);
    }
}

/// Adds to a sum over known values.
fn add_known(sum: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0).saturating_add(more));
    }
}
