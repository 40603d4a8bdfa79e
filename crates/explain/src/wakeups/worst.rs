//! Keeps the latest wake-ups of a run, and the first that hit a limit.

use std::cmp::Reverse;

use vmnoise_events::RunFacts;

use super::wakeup::Wakeup;
use crate::longest::Longest;

/// By its latency; of equals the earlier ranks higher.
pub(crate) type WakeupRank = (u64, Reverse<u64>, Reverse<u32>);

pub(crate) fn rank(wakeup: &Wakeup) -> WakeupRank {
    let Wakeup {
        latency_ns,
        expiry_mono_ns,
        cpu,
        ..
    } = *wakeup;
    (latency_ns, Reverse(expiry_mono_ns), Reverse(cpu))
}

#[derive(Debug)]
pub(crate) struct WorstWakeups {
    latest: Longest<WakeupRank, Wakeup>,
    stop_irq_ns: Option<u64>,
    stop_thread_ns: Option<u64>,
    pub(crate) stopped_by: Option<Wakeup>,
}

impl WorstWakeups {
    pub(crate) fn new(facts: &RunFacts) -> WorstWakeups {
        let timer = facts.options.timer.as_ref();
        WorstWakeups {
            latest: Longest::new(facts.options.top),
            stop_irq_ns: timer.and_then(|timer| timer.stop_irq_ns),
            stop_thread_ns: timer.and_then(|timer| timer.stop_thread_ns),
            stopped_by: None,
        }
    }

    /// Notes whether it hits a limit.
    pub(crate) fn see(&mut self, wakeup: &mut Wakeup) {
        let reaches =
            |ns: Option<u64>, limit: Option<u64>| ns.zip(limit).is_some_and(|(ns, at)| ns >= at);
        wakeup.hits_limit = reaches(wakeup.irq_ns, self.stop_irq_ns)
            || reaches(Some(wakeup.latency_ns), self.stop_thread_ns);
        let key = |wakeup: &Wakeup| (wakeup.expiry_mono_ns, wakeup.cpu);
        let first = self.stopped_by.as_ref();
        if wakeup.hits_limit && first.is_none_or(|first| key(wakeup) < key(first)) {
            self.stopped_by = Some(wakeup.clone());
        }
        self.latest.see(rank(wakeup), || wakeup.clone());
    }

    /// The latest, the latest first.
    pub(crate) fn into_latest(self) -> Vec<Wakeup> {
        self.latest.into_vec()
    }
}
