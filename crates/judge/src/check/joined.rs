//! Evidence of a guest's run that is joined with its host's recording. The recording shows what the
//! guest could not see.

use vmnoise_events::{Event, RunFacts};

use super::budget::Budget;
use super::evidence::{BudgetEvidence, counted, threshold_ns, window_ns};
use crate::compare::{StreamSpan, Windows};
use vmnoise_explain::Joiner;

/// Computes the evidence of a joined run while the two recordings are joined.
#[derive(Debug)]
pub struct JoinedEvidenceReader {
    facts: RunFacts,
    span_ns: u64,
    windows: Windows,
    /// Last watermark of the guest that was not yet passed to the windows, CLOCK_MONOTONIC in
    /// nanoseconds; `None` if all watermarks were passed.
    reached_ns: Option<u64>,
}

impl JoinedEvidenceReader {
    /// Creates a reader for this guest's run, which is checked against this budget. `span` is the
    /// length of the run.
    pub fn new(guest: &RunFacts, span: StreamSpan, budget: &Budget) -> JoinedEvidenceReader {
        let windows = Windows::new(threshold_ns(guest), window_ns(span));
        JoinedEvidenceReader {
            facts: guest.clone(),
            span_ns: span.ns(),
            windows: windows.counting(counted(budget)),
            reached_ns: None,
        }
    }

    /// Adds an event of the guest. Call this before the joiner takes the event.
    pub fn guest(&mut self, event: &Event) {
        if let Event::Watermark(mono_ns) = *event {
            self.reached_ns = Some(mono_ns);
        }
    }

    /// Takes out of the joiner all intervals that no later event can change. The joiner must be set
    /// to keep intervals.
    pub fn take(&mut self, joiner: &mut Joiner) {
        for interval in joiner.take_intervals() {
            self.windows.add(&interval);
        }
        if let Some(mono_ns) = self.reached_ns.take() {
            self.windows.reach(mono_ns, || joiner.take_period());
        }
    }

    /// Returns the evidence. Call this after both streams have ended.
    pub fn finish(mut self, mut joiner: Joiner) -> BudgetEvidence {
        joiner.run_out();
        self.take(&mut joiner);
        let lines = joiner.take_period();
        let run = joiner.finish();
        let sample = self.windows.finish(lines, run.summary);
        BudgetEvidence::new(self.facts, self.span_ns, sample)
    }
}
