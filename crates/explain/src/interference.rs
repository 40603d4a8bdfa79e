//! Counts interferences as osnoise does: by the counter that the workload reads together with its
//! clock, or otherwise by the activities in gaps.

use std::ops::AddAssign;

use serde::Serialize;
use vmnoise_events::{Activity, ActivityKind, InterferenceCounts};

use crate::visibility::Visibility;

/// Number of interferences by class: the last five columns of osnoise's table
/// (kernel/trace/trace_osnoise.c). A class is `None` if the run could not see it.
///
/// If the workload read the interference counters, the classes count all interferences while the
/// workload polled, inside and outside of gaps. Otherwise, the classes count activities that
/// overlap gaps. The classes are those of the traced kernel, which for a microVM is its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct InterferenceColumns {
    /// Number of gaps without interference, by the workload's counter or otherwise by the
    /// activities. The hardware, or a layer below this kernel, caused these gaps. `None` for an
    /// observed thread, because its gaps are made of activities.
    pub hw: Option<u64>,
    /// Number of non-maskable interrupts.
    pub nmi: Option<u64>,
    /// Number of interrupts.
    pub irq: Option<u64>,
    /// Number of softirqs.
    pub softirq: Option<u64>,
    /// Number of times that other threads ran.
    pub thread: Option<u64>,
}

impl InterferenceColumns {
    /// Returns the counts of a run without gaps: 0 for every class that the run can see.
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

    /// Returns the counts of one gap. `counter` is the gap's own count of interferences, if it has
    /// one. `activities` overlap the gap. If records may have been lost, the gap does not count as
    /// free of interference.
    pub(crate) fn of_gap(
        visibility: &Visibility,
        counter: Option<u32>,
        activities: &[Activity],
        may_have_lost: bool,
    ) -> InterferenceColumns {
        let mut counted = InterferenceColumns::none(visibility);
        // The counter shows better than an overlap whether an interference at the edge was inside
        // the gap. But the counter does not show why the thread itself did not run.
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

    /// Returns these counts. Classes that the workload counts itself are replaced by its counters.
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

/// Adds a value to a sum, if the value is known.
fn add_known(sum: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0).saturating_add(more));
    }
}
