//! Exits of a run, cut into windows. The numbers come from the kernel's own counters.

use std::collections::BTreeMap;

use vmnoise_events::{Event, ExitFilter, Name, RunFacts, ShareMap};

use super::figure::{ComparedFigure, OfReason};
use vmnoise_explain::{ExitExplainer, ExitsRun};
use vmnoise_explain::{ExitsSummary, ReasonExits};
use vmnoise_explain::{floor_ns, next_floor_ns};

/// Exits in one window, over all selected vCPUs. The kernel counts the exits itself, so no exit is
/// missing if the stream lost records.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ExitWindow {
    /// Sum over all vCPUs of the time from the first entry to the last, in nanoseconds.
    pub(super) span_ns: u64,
    exits: u64,
    /// Length of all exits, in nanoseconds, without the sleep that the guests asked for.
    pub(super) noise_ns: u64,
    shares_ns: ShareMap<Option<u64>>,
    reasons: BTreeMap<Name, Reason>,
}

/// Counts of the exits for one reason.
#[derive(Debug, Clone, PartialEq, Default)]
struct Reason {
    count: u64,
    total_ns: u64,
    max_ns: u64,
    /// Number of exits in each bucket of lengths. The key is the bucket's lower edge in
    /// nanoseconds.
    lengths: BTreeMap<u64, u64>,
}

impl ExitWindow {
    /// Returns all counts up to now. The totals of a run were checked before, so no sum overflows.
    fn so_far(summary: &ExitsSummary) -> ExitWindow {
        let mut window = ExitWindow {
            shares_ns: ShareMap::from_fn(|_| Some(0)),
            ..ExitWindow::default()
        };
        for vcpu in summary.vms.iter().flat_map(|vm| &vm.vcpus) {
            window.span_ns = window.span_ns.saturating_add(vcpu.time_ns.span_ns());
            window.exits += vcpu.exits;
            window.noise_ns += vcpu.time_ns.noise_ns();
            for (share, ns) in vcpu.time_ns.taken.iter() {
                let sum = &mut window.shares_ns[share];
                *sum = sum.zip(ns).map(|(sum, ns)| sum + ns);
            }
            for reason in &vcpu.reasons {
                let of_reason = window.reasons.entry(reason.name.clone()).or_default();
                of_reason.add(reason);
            }
        }
        window
    }

    /// Returns the difference between these counts and the earlier counts `before`.
    fn since(&self, before: &ExitWindow) -> ExitWindow {
        let nothing = Reason::default();
        let reasons = self.reasons.iter().map(|(name, reason)| {
            let before = before.reasons.get(name).unwrap_or(&nothing);
            (name.clone(), reason.since(before))
        });
        ExitWindow {
            span_ns: self.span_ns.saturating_sub(before.span_ns),
            exits: self.exits.saturating_sub(before.exits),
            noise_ns: self.noise_ns.saturating_sub(before.noise_ns),
            shares_ns: ShareMap::from_fn(|share| {
                let now_ns = self.shares_ns[share]?;
                Some(now_ns.saturating_sub(before.shares_ns[share].unwrap_or(0)))
            }),
            reasons: reasons.collect(),
        }
    }

    /// Returns the reasons for which exits occurred.
    pub(super) fn reasons(&self) -> impl Iterator<Item = &Name> {
        self.reasons.keys()
    }

    /// Returns the figure, in the figure's unit; `None` if unknown. Without exits, a length is 0.
    pub(super) fn figure(&self, figure: &ComparedFigure) -> Option<f64> {
        let has_time = self.span_ns > 0;
        // The kernel counts while the counters are read, so an exit may be in only one of two sums.
        let percent = |ns: u64| ns.min(self.span_ns) as f64 * 100.0 / self.span_ns as f64;
        let per_second = |count: u64| count as f64 * 1e9 / self.span_ns as f64;
        match figure {
            ComparedFigure::Noise => has_time.then(|| percent(self.noise_ns)),
            ComparedFigure::Exits => has_time.then(|| per_second(self.exits)),
            ComparedFigure::Share(share) => {
                self.shares_ns[*share].filter(|_| has_time).map(percent)
            }
            ComparedFigure::Reason(name, what) => {
                let nothing = Reason::default();
                let mut reasons = self.reasons.iter();
                let found = reasons.find(|(known, _)| known.eq_ignore_ascii_case(name));
                let reason = found.map_or(&nothing, |(_, reason)| reason);
                match what {
                    OfReason::Exits => has_time.then(|| per_second(reason.count)),
                    OfReason::Time => has_time.then(|| percent(reason.total_ns)),
                    OfReason::P99 => Some(reason.p99_ns() as f64),
                    OfReason::Max => Some(reason.max_ns as f64),
                }
            }
            _ => None,
        }
    }
}

impl Reason {
    fn add(&mut self, exits: &ReasonExits) {
        self.count += exits.count;
        self.total_ns += exits.total_ns;
        self.max_ns = self.max_ns.max(exits.max_ns);
        for (edge_ns, count) in &exits.histogram {
            *self.lengths.entry(floor_ns(*edge_ns)).or_default() += count;
        }
    }

    /// Returns the counts of exits since `before`. The maximum is exact if these exits include the
    /// longest exit so far. Otherwise the maximum is the upper edge of the highest bucket.
    fn since(&self, before: &Reason) -> Reason {
        let lengths = self.lengths.iter().map(|(floor_ns, count)| {
            let before = before.lengths.get(floor_ns).copied().unwrap_or(0);
            (*floor_ns, count.saturating_sub(before))
        });
        let lengths: BTreeMap<u64, u64> = lengths.filter(|(_, count)| *count > 0).collect();
        let is_longest = self.max_ns > before.max_ns;
        let last = lengths.last_key_value();
        let edge_ns = last.map_or(0, |(floor_ns, _)| edge_ns(*floor_ns));
        Reason {
            count: self.count.saturating_sub(before.count),
            total_ns: self.total_ns.saturating_sub(before.total_ns),
            max_ns: if is_longest {
                self.max_ns
            } else {
                edge_ns.min(self.max_ns)
            },
            lengths,
        }
    }

    fn p99_ns(&self) -> u64 {
        let rank = (self.count as f64 * 0.99).ceil() as u64;
        let mut seen = 0;
        let found = self.lengths.iter().find(|(_, count)| {
            seen += **count;
            seen >= rank
        });
        found.map_or(0, |(floor_ns, _)| edge_ns(*floor_ns).min(self.max_ns))
    }
}

/// Returns the longest length in the bucket that begins at `floor_ns`, in nanoseconds.
fn edge_ns(floor_ns: u64) -> u64 {
    next_floor_ns(floor_ns) - 1
}

/// Computes an [`ExitSample`] from the events of a run over vCPUs.
#[derive(Debug)]
pub(super) struct ExitSampler {
    explainer: ExitExplainer,
    filter: ExitFilter,
    window_ns: u64,
    /// End of the open window, CLOCK_MONOTONIC in nanoseconds; `None` before the first watermark.
    window_end_ns: Option<u64>,
    now_ns: u64,
    counted: ExitWindow,
    windows: Vec<ExitWindow>,
}

/// Figures of a run over vCPUs, for a comparison.
#[derive(Debug)]
pub(super) struct ExitSample {
    pub(super) whole: ExitWindow,
    pub(super) windows: Vec<ExitWindow>,
    /// Filter of exit reasons. Figures of reasons that were not selected are unknown.
    pub(super) filter: ExitFilter,
    pub(super) run: ExitsRun,
}

impl ExitSample {
    /// Returns the result of [`ExitWindow::figure`], or `None` if the exit's reason was not
    /// selected.
    pub(super) fn figure(&self, window: &ExitWindow, figure: &ComparedFigure) -> Option<f64> {
        match figure {
            ComparedFigure::Reason(name, _) if !self.filter.takes_reason(name) => None,
            _ => window.figure(figure),
        }
    }
}

impl ExitSampler {
    pub(super) fn new(facts: &RunFacts, window_ns: u64) -> ExitSampler {
        ExitSampler {
            explainer: ExitExplainer::new(facts),
            filter: facts.options.exits.clone().unwrap_or_default(),
            window_ns: window_ns.max(1),
            window_end_ns: None,
            now_ns: 0,
            counted: ExitWindow::default(),
            windows: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, event: &Event) {
        self.explainer.push(event, &mut |_| {});
        if let Event::Watermark(mono_ns) = *event {
            self.now_ns = self.now_ns.max(mono_ns);
            let first_end_ns = mono_ns.saturating_add(self.window_ns);
            let end_ns = *self.window_end_ns.get_or_insert(first_end_ns);
            if mono_ns >= end_ns && self.close() {
                let past_ns =
                    ((mono_ns - end_ns) / self.window_ns + 1).saturating_mul(self.window_ns);
                self.window_end_ns = Some(end_ns.saturating_add(past_ns));
            }
        }
    }

    /// Returns the sample. The last counts come after the last watermark. They complete a window of
    /// which more than half had passed.
    pub(super) fn finish(mut self) -> ExitSample {
        let half_ns = self.window_ns / 2;
        if self
            .window_end_ns
            .is_some_and(|end_ns| self.now_ns.saturating_add(half_ns) >= end_ns)
        {
            self.close();
        }
        let run = self.explainer.finish();
        ExitSample {
            whole: ExitWindow::so_far(&run.exits),
            windows: self.windows,
            filter: self.filter,
            run,
        }
    }

    /// Closes the window with the counts since the last window. Returns whether a window was
    /// closed. Without new counts none is closed: counts come once a second, and a sleeping vCPU
    /// has none.
    fn close(&mut self) -> bool {
        let counted = ExitWindow::so_far(&self.explainer.exits());
        let window = counted.since(&self.counted);
        let is_any = window.span_ns > 0;
        if is_any {
            self.windows.push(window);
            self.counted = counted;
        }
        is_any
    }
}
