//! Running sums of the wake-ups of one CPU.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use vmnoise_events::{Share, ShareMap, SourceId};

use super::distribution::{Distribution, Room};
use super::summary::{CpuWakeups, PhaseTotals};
use crate::interval::{Interval, WakeupDetail};
use crate::named::SourceSummary;
use crate::names::Names;
use crate::visibility::Visibility;

#[derive(Debug)]
pub(crate) struct WakeupLedger {
    count: u64,
    /// Sum of all latencies, in nanoseconds. Every other sum of times is a part of this sum.
    total_ns: u64,
    missed: u64,
    /// Number of expiries while the task was stopped.
    not_measured: u64,
    steal_clamps: u64,
    /// Number of wake-ups in which an event that delimits a phase is missing.
    incomplete: u64,
    /// Number of wake-ups that a host's recording covers.
    witnessed: u64,
    irq: Distribution,
    thread: Distribution,
    user: Distribution,
    corrected: Distribution,
    phases_ns: [Option<u64>; 5],
    unsplit_ns: u64,
    shares_ns: ShareMap<u64>,
    sources: BTreeMap<(Share, SourceId), Taken>,
}

/// Time that one source took from all wake-ups, under one share.
#[derive(Debug, Default)]
struct Taken {
    /// Number of wake-ups from which the source took time.
    count: u64,
    total_ns: u64,
    max_ns: u64,
    /// Number of the last wake-up from which the source took time.
    last: u64,
    /// Time that the source took from this wake-up so far, in nanoseconds.
    of_last_ns: u64,
}

impl Taken {
    fn add(&mut self, wakeup: u64, ns: u64) {
        if self.last != wakeup {
            self.last = wakeup;
            self.of_last_ns = 0;
            self.count += 1;
        }
        self.total_ns += ns;
        self.of_last_ns += ns;
        self.max_ns = self.max_ns.max(self.of_last_ns);
    }
}

impl WakeupLedger {
    pub(crate) fn new() -> WakeupLedger {
        WakeupLedger {
            count: 0,
            total_ns: 0,
            missed: 0,
            not_measured: 0,
            steal_clamps: 0,
            incomplete: 0,
            witnessed: 0,
            irq: Distribution::new(),
            thread: Distribution::new(),
            user: Distribution::new(),
            corrected: Distribution::new(),
            phases_ns: [None; 5],
            unsplit_ns: 0,
            shares_ns: ShareMap::default(),
            sources: BTreeMap::new(),
        }
    }

    /// Adds a wake-up. Returns `false` if the waits that would have followed the wake-up did not
    /// fit in `room`.
    pub(crate) fn book(
        &mut self,
        interval: &Interval,
        wakeup: &WakeupDetail,
        period_ns: u64,
        room: &mut Room,
    ) -> bool {
        self.count += 1;
        self.witnessed += u64::from(interval.witnessed);
        self.total_ns += interval.dur_ns;
        self.missed += u64::from(wakeup.missed);
        self.steal_clamps += u64::from(interval.steal_clamped);
        self.incomplete += u64::from(wakeup.phases_ns.contains(&None));
        if let Some(ns) = wakeup.irq_ns {
            self.irq.record(ns);
        }
        if let Some(ns) = wakeup.thread_ns {
            self.thread.record(ns);
        }
        self.user.record(interval.dur_ns);
        let fits = self
            .corrected
            .record_corrected(interval.dur_ns, period_ns, room);
        for (sum, ns) in self.phases_ns.iter_mut().zip(wakeup.phases_ns) {
            if let Some(ns) = ns {
                *sum = Some(sum.unwrap_or(0) + ns);
            }
        }
        self.unsplit_ns += wakeup.unsplit_ns;
        for part in &interval.parts {
            self.shares_ns[part.share] += part.ns;
            if let Some(source) = part.source {
                let taken = self.sources.entry((part.share, source)).or_default();
                taken.add(self.count, part.ns);
            }
        }
        fits
    }

    /// Leaves out a wake-up, because the task was stopped when its timer was due. This expiry, and
    /// the expiries until the task woke up, say nothing about the machine.
    pub(crate) fn leave_out(&mut self, expiry_ns: u64, woke_ns: u64, period_ns: u64) {
        let more = (woke_ns - expiry_ns).checked_div(period_ns).unwrap_or(0);
        self.not_measured = self.not_measured.saturating_add(1 + more);
    }

    /// Returns the number of wake-ups so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn summary(&self, cpu: u32, visibility: &Visibility, names: &Names) -> CpuWakeups {
        let [armed_late, irq, handler, wakeup, user] = self.phases_ns;
        CpuWakeups {
            cpu,
            count: self.count,
            missed: self.missed,
            not_measured: self.not_measured,
            incomplete: self.incomplete,
            irq: self.irq.figures(),
            thread: self.thread.figures(),
            user: self.user.figures(),
            corrected: self.corrected.figures(),
            phases_ns: PhaseTotals {
                armed_late,
                irq,
                handler,
                wakeup,
                return_: user,
                unsplit: self.unsplit_ns,
            },
            shares_ns: visibility.known(&self.shares_ns, self.witnessed > 0),
            sources: self.sources(names),
            steal_clamps: self.steal_clamps,
            distribution: self.user.counts(),
            corrected_distribution: self.corrected.counts(),
        }
    }

    /// Returns the sources with their times, the largest total first.
    fn sources(&self, names: &Names) -> Vec<SourceSummary> {
        let reported = self.sources.iter();
        let mut reported: Vec<_> = reported
            .map(|((share, source), taken)| SourceSummary {
                share: *share,
                name: names.name(Some(*source)).into(),
                count: taken.count,
                total_ns: taken.total_ns,
                max_ns: taken.max_ns,
            })
            .collect();
        reported.sort_by_key(|source| Reverse(source.total_ns));
        reported
    }
}
