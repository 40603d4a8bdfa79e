//! What there is to decide by.

use vmnoise_events::coverage::Coverage;
use vmnoise_events::{Event, FinishReason, RunFacts, Workload};

use super::budget::{Budget, Quantity};
use super::odds::{Odds, seen};
use crate::compare::{Sample, Sampler, Span};
use vmnoise_explain::NamedInterval;
use vmnoise_explain::{CpuSummary, Summary};

/// Into how many windows a run is cut, to see how alike the values are that follow one another.
const WINDOWS: u64 = 40;

/// A run, read for a budget.
#[derive(Debug)]
pub struct Evidence {
    /// What was true before the run.
    pub facts: RunFacts,
    /// How long it measured, nanoseconds.
    pub length_ns: u64,
    pub(super) sample: Sample,
}

/// Reads a run, event by event, once it is known how long it is.
#[derive(Debug)]
pub struct EvidenceReader {
    facts: RunFacts,
    span_ns: u64,
    sampler: Sampler,
}

impl EvidenceReader {
    /// Of this run, which is so long, for this budget.
    pub fn new(facts: &RunFacts, span: Span, budget: &Budget) -> EvidenceReader {
        let sampler = Sampler::new(facts, threshold_ns(facts), window_ns(span));
        EvidenceReader {
            facts: facts.clone(),
            span_ns: span.ns(),
            sampler: sampler.counting_above(limits_ns(budget)),
        }
    }

    /// Takes the next event.
    pub fn push(&mut self, event: &Event) {
        self.sampler.push(event);
    }

    /// All that was read.
    pub fn finish(self) -> Evidence {
        Evidence::new(self.facts, self.span_ns, self.sampler.finish())
    }
}

/// Gaps below are not looked at.
pub(super) fn threshold_ns(facts: &RunFacts) -> u64 {
    match facts.workload {
        // Every wake-up is a value.
        Workload::Timerlat => 0,
        _ => facts.options.threshold_ns,
    }
}

/// Into windows of which length such a run is cut.
pub(super) fn window_ns(span: Span) -> u64 {
    span.ns() / WINDOWS
}

/// What longer gaps are counted than, in the order of the requirements.
pub(super) fn limits_ns(budget: &Budget) -> Vec<u64> {
    let requirements = budget.requirements.iter();
    let limits_ns = requirements.map(|it| match it.quantity {
        Quantity::Percentile(_) => it.at_most as u64,
        _ => u64::MAX,
    });
    limits_ns.collect()
}

/// How long each CPU was measured at least.
fn measured_ns(facts: &RunFacts, span_ns: u64, summary: &Summary) -> u64 {
    let asked = |cpu: &&CpuSummary| facts.options.cpus.contains(&cpu.cpu);
    let runtimes = summary
        .cpus
        .iter()
        .filter(asked)
        .map(|cpu| cpu.runtime_ns.unwrap_or(0));
    let polled_ns = match facts.workload {
        Workload::Microvm | Workload::Osnoise => runtimes.min().unwrap_or(0),
        // A task that sleeps is measured as long as it is there.
        Workload::Timerlat | Workload::Observed | Workload::Exits => span_ns,
    };
    // One that ended as planned was as long as planned: it begins to poll a little later, and hands over what it
    // saw meanwhile. One that pauses (-r) polls as long as it does.
    let planned_ns = match summary.finish_reason {
        Some(FinishReason::Duration) if !facts.options.pauses() => facts.options.duration_ns,
        _ => 0,
    };
    let is_nearly_all = polled_ns >= planned_ns - planned_ns / 20;
    let not_measured_ns = summary
        .longest_not_measured()
        .map_or(0, |(longest_ns, _)| longest_ns);
    match is_nearly_all {
        true => polled_ns.max(planned_ns.saturating_sub(not_measured_ns)),
        false => polled_ns,
    }
}

impl Evidence {
    pub(super) fn new(facts: RunFacts, span_ns: u64, sample: Sample) -> Evidence {
        Evidence {
            length_ns: measured_ns(&facts, span_ns, &sample.summary),
            facts,
            sample,
        }
    }

    /// What the run, and that of its host, could see.
    pub fn coverage(&self) -> &Coverage {
        &self.sample.summary.coverage
    }

    /// How many gaps, or wake-ups, there were.
    pub fn count(&self) -> u64 {
        self.sample.whole.lengths.count()
    }

    /// Expiries that a task could not ask for, because it was late for one before: none of them would have been
    /// later than that one, and nobody knows how late each.
    fn missed(&self) -> u64 {
        let wakeups = self.sample.summary.wakeups.iter();
        let missed = wakeups.flat_map(|it| &it.cpus).map(|cpu| cpu.missed);
        missed.fold(0, u64::saturating_add)
    }

    /// The longest of all; `None` where there was none.
    pub fn worst(&self) -> Option<&NamedInterval> {
        let summary = &self.sample.summary;
        let of_wakeups = summary.wakeups.as_ref().map(|it| &it.worst);
        of_wakeups.unwrap_or(&summary.worst).first()
    }

    /// What the run says of the percentile that is the requirement in this place; `None` of a run that is too short to
    /// be cut.
    pub(super) fn odds(&self, place: usize, limit_ns: u64, risk: f64) -> Option<Odds> {
        let Sample { whole, windows, .. } = &self.sample;
        let of_windows = windows.iter();
        let of_windows = of_windows.map(|it| (&it.lengths, it.above[place]));
        let windows = seen(&whole.lengths, of_windows, limit_ns);
        let in_windows: u64 = windows.iter().map(|it| it.count).sum();
        // What became certain only at the end is in no window, and says nothing of how alike it was.
        if in_windows < whole.lengths.count() / 2 {
            return None;
        }
        Odds::new(
            whole.lengths.count(),
            whole.above[place],
            self.coverage().lost.gaps.saturating_add(self.missed()),
            &windows,
            risk,
        )
    }
}
