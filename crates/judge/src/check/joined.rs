//! A guest's run that is read for a budget together with its host's recording, which shows what the
//! guest could not see.

use vmnoise_events::{Event, RunFacts};

use super::budget::Budget;
use super::evidence::{BudgetEvidence, counted, threshold_ns, window_ns};
use crate::compare::{StreamSpan, Windows};
use vmnoise_explain::Joiner;

/// Reads a joined run while the two recordings are joined.
#[derive(Debug)]
pub struct JoinedEvidenceReader {
    facts: RunFacts,
    span_ns: u64,
    windows: Windows,
    /// Last watermark of the guest that the windows have not reached yet, CLOCK_MONOTONIC in
    /// nanoseconds.
    reached_ns: Option<u64>,
}

impl JoinedEvidenceReader {
    /// Reads this guest's run, which covers `span`, for this budget.
    pub fn new(guest: &RunFacts, span: StreamSpan, budget: &Budget) -> JoinedEvidenceReader {
        let windows = Windows::new(threshold_ns(guest), window_ns(span));
        JoinedEvidenceReader {
            facts: guest.clone(),
            span_ns: span.ns(),
            windows: windows.counting(counted(budget)),
            reached_ns: None,
        }
    }

    /// Takes an event of the guest before the joiner takes it.
    pub fn guest(&mut self, event: &Event) {
        if let Event::Watermark(mono_ns) = *event {
            self.reached_ns = Some(mono_ns);
        }
    }

    /// Takes the intervals that have become certain. The joiner must keep intervals.
    pub fn take(&mut self, joiner: &mut Joiner) {
        for interval in joiner.take_intervals() {
            self.windows.add(&interval);
        }
        if let Some(mono_ns) = self.reached_ns.take() {
            self.windows.reach(mono_ns, || joiner.take_period());
        }
    }

    /// Returns the evidence after both streams have ended.
    pub fn finish(mut self, mut joiner: Joiner) -> BudgetEvidence {
        joiner.run_out();
        self.take(&mut joiner);
        let lines = joiner.take_period();
        let run = joiner.finish();
        let sample = self.windows.finish(lines, run.summary);
        BudgetEvidence::new(self.facts, self.span_ns, sample)
    }
}
