//! Evidence for the verdicts of `vmnoise check`.

use std::collections::BTreeMap;
use std::sync::Arc;

use vmnoise_events::coverage::{Coverage, USUAL_THRESHOLD_NS};
use vmnoise_events::{Event, FinishReason, MeasuringCommand, RunFacts};

use super::budget::{Budget, Quantity};
use super::odds::{Bursts, LONGEST_NS, Odds, seen};
use crate::bounds::largest_figure;
use crate::compare::{ComparedFigure, Counted, RunSample, Sampler, StreamSpan, Track};
use vmnoise_explain::{CpuSummary, NamedInterval, Summary};

/// Number of windows into which a run is cut. The windows show how strongly consecutive values
/// depend on each other.
pub(super) const WINDOWS: u64 = 40;
/// Unit of time for a rate. In each microsecond either one gap begins, or none.
const MICROSECOND_NS: u64 = 1_000;

/// Evidence of a run for a budget.
#[derive(Debug)]
pub struct BudgetEvidence {
    /// Facts that were recorded before the run.
    pub facts: Arc<RunFacts>,
    /// Length of the measured time, in nanoseconds.
    pub length_ns: u64,
    /// Coverage of the run and of its host's recording.
    coverage: Arc<Coverage>,
    pub(super) sample: RunSample,
    /// Number and evidence of each CPU. Empty if the run has one CPU, or observed threads, which
    /// may run on any CPU.
    pub(super) cpus: Vec<(u32, BudgetEvidence)>,
}

/// Computes the evidence of a run from its events. The length of the run must be known.
#[derive(Debug)]
pub struct EvidenceReader {
    facts: RunFacts,
    span_ns: u64,
    sampler: Sampler,
}

impl EvidenceReader {
    /// Creates a reader for this run, which is checked against this budget. `span` is the length of
    /// the run.
    pub fn new(facts: &RunFacts, span: StreamSpan, budget: &Budget) -> EvidenceReader {
        let sampler = Sampler::new(facts, threshold_ns(facts), window_ns(span));
        EvidenceReader {
            facts: facts.clone(),
            span_ns: span.ns(),
            sampler: sampler.counting(counted(budget)),
        }
    }

    /// Adds the next event.
    pub fn push(&mut self, event: &Event) {
        self.sampler.push(event);
    }

    /// Returns the evidence of all events.
    pub fn finish(self) -> BudgetEvidence {
        BudgetEvidence::new(self.facts, self.span_ns, self.sampler.finish())
    }
}

/// Returns the threshold in nanoseconds. Shorter gaps are ignored.
pub(super) fn threshold_ns(facts: &RunFacts) -> u64 {
    match facts.workload {
        // All wake-ups are counted, whatever their latency.
        MeasuringCommand::Timerlat => 0,
        _ => facts.options.threshold_ns,
    }
}

/// Returns the length of a window of a run of this length, in nanoseconds.
pub(super) fn window_ns(span: StreamSpan) -> u64 {
    span.ns() / WINDOWS
}

/// Returns the lengths above which gaps are counted: one for each requirement, in the same order.
pub(super) fn counted(budget: &Budget) -> Counted {
    let requirements = budget.requirements.iter();
    let limits_ns = requirements.map(|it| match it.quantity {
        Quantity::Percentile(_) => it.at_most as u64,
        Quantity::GapsAbove(ns) => ns,
        _ => u64::MAX,
    });
    Counted {
        limits_ns: limits_ns.collect(),
        cell_ns: LONGEST_NS,
    }
}

/// Returns the least time, in nanoseconds, for which each CPU was measured.
fn measured_ns(facts: &RunFacts, span_ns: u64, summary: &Summary) -> u64 {
    let asked = |cpu: &&CpuSummary| facts.options.cpus.contains(&cpu.cpu);
    let runtimes = summary
        .cpus
        .iter()
        .filter(asked)
        .map(|cpu| cpu.runtime_ns.unwrap_or(0));
    let polled_ns = match facts.workload {
        MeasuringCommand::Microvm | MeasuringCommand::Osnoise => runtimes.min().unwrap_or(0),
        // A sleeping task counts as measured while it exists.
        MeasuringCommand::Timerlat | MeasuringCommand::Observed | MeasuringCommand::Exits => {
            span_ns
        }
    };
    // A run that ended as planned counts with its planned length. The thread polled for a little
    // less, because it started later and spent time on handing over gaps. A run with pauses (`-r`)
    // counts only the time in which it polled.
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

impl BudgetEvidence {
    pub(super) fn new(facts: RunFacts, span_ns: u64, mut sample: RunSample) -> BudgetEvidence {
        let tracks = std::mem::take(&mut sample.cpus);
        let mut evidence = BudgetEvidence {
            length_ns: measured_ns(&facts, span_ns, &sample.summary),
            facts: Arc::new(facts),
            coverage: Arc::new(sample.summary.coverage.clone()),
            sample,
            cpus: Vec::new(),
        };
        if tracks.len() > 1 && evidence.facts.workload != MeasuringCommand::Observed {
            evidence.cpus = evidence.of_cpus(tracks);
        }
        evidence
    }

    /// Returns the evidence of each CPU.
    fn of_cpus(&self, tracks: BTreeMap<u32, Track>) -> Vec<(u32, BudgetEvidence)> {
        let common = without_cpus(&self.sample.summary);
        let evidence = tracks.into_iter().map(|(cpu, track)| {
            let evidence = BudgetEvidence {
                facts: Arc::clone(&self.facts),
                length_ns: self.length_ns,
                coverage: Arc::clone(&self.coverage),
                sample: RunSample {
                    whole: track.whole,
                    windows: track.windows,
                    window_ns: self.sample.window_ns,
                    cpus: BTreeMap::new(),
                    bad_cells: track.bad_cells,
                    summary: with_cpu(common.clone(), &self.sample.summary, cpu),
                },
                cpus: Vec::new(),
            };
            (cpu, evidence)
        });
        evidence.collect()
    }

    /// Returns the evidence of a CPU. Returns the evidence of the run if the CPU has no evidence of
    /// its own.
    pub(super) fn of(&self, cpu: Option<u32>) -> &BudgetEvidence {
        let mut cpus = self.cpus.iter();
        let found = cpu.and_then(|cpu| cpus.find(|(known, _)| *known == cpu));
        found.map_or(self, |(_, evidence)| evidence)
    }

    /// Returns the coverage of the run and of its host's recording.
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// Returns the number of gaps or wake-ups.
    pub fn count(&self) -> u64 {
        self.sample.whole.lengths.count()
    }

    /// Returns the number of expiries that passed while the task was late for an earlier expiry. A
    /// missed expiry was less late than the earlier expiry, but its exact lateness is unknown.
    fn missed(&self) -> u64 {
        let wakeups = self.sample.summary.wakeups.iter();
        let missed = wakeups.flat_map(|it| &it.cpus).map(|cpu| cpu.missed);
        missed.fold(0, u64::saturating_add)
    }

    /// Returns the longest gap or wake-up of a CPU, or of the run if `cpu` is `None`. The result is
    /// `None` if no gap or wake-up is listed.
    pub fn worst(&self, cpu: Option<u32>) -> Option<&NamedInterval> {
        let summary = &self.of(cpu).sample.summary;
        let of_wakeups = summary.wakeups.as_ref().map(|it| &it.worst);
        of_wakeups.unwrap_or(&summary.worst).first()
    }

    /// Returns the odds of the percentile whose requirement has the index `place`. `part` (0 to 1)
    /// of all values may be above its limit. `None` if the run is too short to be cut into windows.
    pub(super) fn odds(&self, place: usize, limit_ns: u64, part: f64, risk: f64) -> Option<Odds> {
        let RunSample { whole, windows, .. } = &self.sample;
        let of_windows = windows.iter();
        let of_windows = of_windows.map(|it| (&it.lengths, it.above[place]));
        let windows = seen(&whole.lengths, of_windows, limit_ns);
        let in_windows: u64 = windows.iter().map(|it| it.count).sum();
        // Values that became certain only at the end are in no window. The windows cannot show how
        // strongly these values depend on each other.
        if in_windows < whole.lengths.count() / 2 {
            return None;
        }
        let lost = self.coverage().lost.gaps.saturating_add(self.missed());
        let (count, above) = (whole.lengths.count(), whole.above[place]);
        let odds = Odds::new(count, above, lost, &windows, risk)?;
        Some(odds.with_bursts(self.bursts(place, part)))
    }

    /// Returns the odds for the part of all microseconds in which a gap longer than `limit_ns`
    /// begins. `None` if the run is too short to be cut into windows. `per_second` must be below
    /// one million.
    pub(super) fn odds_of_rate(
        &self,
        place: usize,
        limit_ns: u64,
        per_second: f64,
        risk: f64,
    ) -> Option<Odds> {
        let RunSample { whole, windows, .. } = &self.sample;
        let us = |ns: u64| ns / MICROSECOND_NS;
        let of_windows = windows.iter();
        let of_windows = of_windows.map(|it| (&it.lengths, it.above[place]));
        let mut seen = seen(&whole.lengths, of_windows, limit_ns);
        for (seen, window) in seen.iter_mut().zip(windows) {
            seen.count = us(window.runtime_ns);
        }
        let in_windows: u64 = seen.iter().map(|it| it.count).sum();
        if in_windows < us(whole.runtime_ns) / 2 {
            return None;
        }
        let (count, above) = (us(whole.runtime_ns), whole.above[place]);
        let lost = self.coverage().lost.gaps;
        let odds = Odds::new(count, above, lost, &seen, risk)?;
        let in_cell = per_second * LONGEST_NS as f64 / 1e9;
        let part = in_cell / self.most_in_cell(limit_ns);
        Some(odds.with_bursts(self.bursts(place, part)))
    }

    /// Returns the assumed number of gaps above the limit in a bad cell. No more fit into a cell. If
    /// the recording shows how close together gaps come, a bad cell has no more of them than other
    /// cells have on average. It does not show this with a threshold above the usual one, or with
    /// fewer gaps than cells: the average would be too small, and the verdict too firm.
    fn most_in_cell(&self, limit_ns: u64) -> f64 {
        let fitting = LONGEST_NS as f64 / limit_ns.max(1) as f64;
        let (gaps, cells) = (self.count(), self.cells().max(1));
        let is_shown = threshold_ns(&self.facts) <= USUAL_THRESHOLD_NS && gaps >= cells;
        match is_shown {
            true => fitting.min(gaps as f64 / cells as f64),
            false => fitting,
        }
    }

    /// Returns the largest possible noise or number of gaps, in the figure's unit; `None` if
    /// unknown.
    pub(super) fn largest(&self, figure: &ComparedFigure) -> Option<f64> {
        let cpus = &self.sample.summary.cpus;
        let is_own = |cpu: u32| cpus.iter().any(|it| it.cpu == cpu);
        let own = self.coverage.cpus.iter().filter(|it| is_own(it.cpu));
        let unplaced_ns = own.map(|it| it.unplaced_ns).fold(0, u64::saturating_add);
        let threshold_ns = self.coverage.threshold_ns;
        largest_figure(figure, &self.sample.whole, unplaced_ns, threshold_ns)
    }

    fn bursts(&self, place: usize, part: f64) -> Bursts {
        let windows = self.sample.windows.iter();
        Bursts {
            windows: windows.filter(|it| it.above[place] > 0).count(),
            cells: self.cells(),
            bad: self.sample.bad_cells[place],
            part: part.clamp(f64::MIN_POSITIVE, 0.99),
        }
    }

    /// Returns how many times the longest assumed burst fits into the measured time.
    fn cells(&self) -> u64 {
        let whole = &self.sample.whole;
        // Sleeping tasks have no runtime. A task counts as measured while it exists.
        let measured_ns = match self.facts.workload {
            MeasuringCommand::Timerlat => self.length_ns,
            _ => whole.runtime_ns,
        };
        measured_ns / LONGEST_NS
    }
}

/// Returns a copy of the summary without the figures of its CPUs. The evidence of each CPU contains
/// this copy, and a machine may have thousands of CPUs.
fn without_cpus(summary: &Summary) -> Summary {
    let mut common = summary.clone();
    common.cpus.clear();
    common.coverage.cpus.clear();
    common.worst.clear();
    if let Some(wakeups) = &mut common.wakeups {
        wakeups.cpus.clear();
        wakeups.worst.clear();
    }
    common
}

/// Adds the figures of one CPU from `summary` to `common`.
fn with_cpu(mut common: Summary, summary: &Summary, cpu: u32) -> Summary {
    let of_cpu = |all: &[NamedInterval]| -> Vec<NamedInterval> {
        all.iter().filter(|it| it.cpu == cpu).cloned().collect()
    };
    common.cpus = summary
        .cpus
        .iter()
        .filter(|it| it.cpu == cpu)
        .cloned()
        .collect();
    common.worst = of_cpu(&summary.worst);
    if let Some((to, from)) = common.wakeups.as_mut().zip(summary.wakeups.as_ref()) {
        to.cpus = from
            .cpus
            .iter()
            .filter(|it| it.cpu == cpu)
            .cloned()
            .collect();
        to.worst = of_cpu(&from.worst);
    }
    common
}
