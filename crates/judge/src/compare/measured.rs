//! Figures of a run for a comparison, for every kind of recording.

use vmnoise_events::coverage::Coverage;
use vmnoise_events::{Event, Name, RunFacts};

use super::exits::{ExitSample, ExitSampler};
use super::figure::{ComparedFigure, RecordingKind};
use super::sample::{RunSample, Sampler};

/// Figures of a run and of its windows.
#[derive(Debug)]
pub struct RunFigures {
    /// Kind of the recorded data.
    pub kind: RecordingKind,
    /// Sum of the measured time of all CPUs or vCPUs, in nanoseconds.
    pub runtime_ns: u64,
    /// Length of all gaps, in nanoseconds; `None` if the run does not measure gaps.
    pub gaps_ns: Option<u64>,
    /// Number of windows.
    pub windows: usize,
    /// Coverage of the recording.
    pub coverage: Coverage,
    /// Number of lost events.
    pub lost_events: u64,
    /// Whether the run ended normally.
    pub complete: bool,
    pub(super) of: Of,
}

#[derive(Debug)]
pub(super) enum Of {
    Cpus(Box<RunSample>),
    Vcpus(Box<ExitSample>),
}

impl RunFigures {
    /// Returns all figures of the run, in the order of results. Only exit reasons that occurred
    /// have figures.
    pub fn figures(&self) -> Vec<ComparedFigure> {
        let mut figures = ComparedFigure::all(self.kind);
        figures.extend(self.reasons().flat_map(ComparedFigure::of_reason));
        figures
    }

    /// Returns the reasons of the run's exits.
    fn reasons(&self) -> impl Iterator<Item = &Name> {
        let reasons = match &self.of {
            Of::Cpus(_) => None,
            Of::Vcpus(sample) => Some(sample.whole.reasons()),
        };
        reasons.into_iter().flatten()
    }

    /// Returns a figure of the whole run, in the figure's unit; `None` if unknown.
    pub fn figure(&self, figure: &ComparedFigure) -> Option<f64> {
        match &self.of {
            Of::Cpus(sample) => figure.of(&sample.whole),
            Of::Vcpus(sample) => sample.figure(&sample.whole, figure),
        }
    }

    /// Returns the figure of each window, in the order of time; `None` if the figure is unknown in
    /// some window.
    pub fn by_window(&self, figure: &ComparedFigure) -> Option<Vec<f64>> {
        match &self.of {
            Of::Cpus(sample) => sample.windows.iter().map(|it| figure.of(it)).collect(),
            Of::Vcpus(sample) => {
                let windows = sample.windows.iter();
                windows.map(|it| sample.figure(it, figure)).collect()
            }
        }
    }
}

/// Collects the events of one run, and computes its figures.
#[derive(Debug)]
pub struct Measuring(By);

#[derive(Debug)]
enum By {
    Cpus(RecordingKind, u64, Box<Sampler>),
    Vcpus(Box<ExitSampler>),
}

impl Measuring {
    /// Starts with windows of `window_ns`. Counts gaps of at least `threshold_ns`, and all wake-ups
    /// and exits. The threshold must be at least that of the run.
    pub fn new(facts: &RunFacts, threshold_ns: u64, window_ns: u64) -> Measuring {
        Measuring(match RecordingKind::of(facts.workload) {
            RecordingKind::Exits => By::Vcpus(Box::new(ExitSampler::new(facts, window_ns))),
            kind @ (RecordingKind::Gaps | RecordingKind::Wakeups) => {
                let sampler = Sampler::new(facts, threshold_ns, window_ns);
                By::Cpus(kind, threshold_ns, Box::new(sampler))
            }
        })
    }

    /// Adds the next event.
    pub fn push(&mut self, event: &Event) {
        match &mut self.0 {
            By::Cpus(_, _, sampler) => sampler.push(event),
            By::Vcpus(sampler) => sampler.push(event),
        }
    }

    /// Returns the figures. Data after the last complete window are in no window.
    pub fn finish(self) -> RunFigures {
        match self.0 {
            By::Cpus(kind, threshold_ns, sampler) => of_cpus(kind, threshold_ns, sampler.finish()),
            By::Vcpus(sampler) => of_vcpus(sampler.finish()),
        }
    }
}

fn of_cpus(kind: RecordingKind, threshold_ns: u64, mut sample: RunSample) -> RunFigures {
    // A window without wake-ups shows neither lateness nor punctuality, so it is dropped.
    if kind == RecordingKind::Wakeups {
        sample.windows.retain(|window| window.lengths.count() > 0);
    }
    RunFigures {
        kind,
        runtime_ns: sample.whole.runtime_ns,
        gaps_ns: (kind == RecordingKind::Gaps).then_some(sample.whole.noise_ns),
        windows: sample.windows.len(),
        coverage: coverage_above(threshold_ns, &sample.summary.coverage),
        lost_events: sample.summary.lost_events,
        complete: sample.summary.complete,
        of: Of::Cpus(Box::new(sample)),
    }
}

/// Returns the coverage with the larger of two thresholds: this one and that of the recording.
fn coverage_above(threshold_ns: u64, coverage: &Coverage) -> Coverage {
    Coverage {
        threshold_ns: threshold_ns.max(coverage.threshold_ns),
        ..coverage.clone()
    }
}

fn of_vcpus(sample: ExitSample) -> RunFigures {
    RunFigures {
        kind: RecordingKind::Exits,
        runtime_ns: sample.whole.span_ns,
        gaps_ns: None,
        windows: sample.windows.len(),
        coverage: sample.run.coverage.clone(),
        lost_events: sample.run.lost_events,
        complete: sample.run.complete,
        of: Of::Vcpus(Box::new(sample)),
    }
}
