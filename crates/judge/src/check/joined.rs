//! A guest's run, read for a budget together with the recording of its host, which saw what the guest could not.

use vmnoise_events::{Event, RunFacts};

use super::budget::Budget;
use super::evidence::{Evidence, counted, threshold_ns, window_ns};
use crate::compare::{Span, Windows};
use vmnoise_explain::Joiner;

/// Reads a joined run as it is joined.
#[derive(Debug)]
pub struct JoinedEvidenceReader {
    facts: RunFacts,
    span_ns: u64,
    windows: Windows,
    /// The guest's last watermark, until the host was heard about it; CLOCK_MONOTONIC in nanoseconds.
    reached_ns: Option<u64>,
}

impl JoinedEvidenceReader {
    /// Of this guest's run, which is so long, for this budget.
    pub fn new(guest: &RunFacts, span: Span, budget: &Budget) -> JoinedEvidenceReader {
        let windows = Windows::new(threshold_ns(guest), window_ns(span));
        JoinedEvidenceReader {
            facts: guest.clone(),
            span_ns: span.ns(),
            windows: windows.counting(counted(budget)),
            reached_ns: None,
        }
    }

    /// Hears what the guest is about to tell the joiner.
    pub fn guest(&mut self, event: &Event) {
        if let Event::Watermark(mono_ns) = *event {
            self.reached_ns = Some(mono_ns);
        }
    }

    /// Takes what has become certain; of a joiner that keeps intervals.
    pub fn take(&mut self, joiner: &mut Joiner) {
        for interval in joiner.take_intervals() {
            self.windows.add(&interval);
        }
        if let Some(mono_ns) = self.reached_ns.take() {
            self.windows.reach(mono_ns, || joiner.take_period());
        }
    }

    /// All that was read of streams that have ended.
    pub fn finish(mut self, mut joiner: Joiner) -> Evidence {
        joiner.run_out();
        self.take(&mut joiner);
        let lines = joiner.take_period();
        let run = joiner.finish();
        let sample = self.windows.finish(lines, run.summary);
        Evidence::new(self.facts, self.span_ns, sample)
    }
}
