//! Answers whether a condition holds for a run, and which blind spots prevent an answer.

use vmnoise_events::Share;
use vmnoise_events::coverage::{BlindSpot, HiddenKind, Question};

use super::measured::{Of, RunFigures};
use super::{ComparedFigure, LatencyContext, OfReason, RunSample};
use crate::bounds::{Bounds, largest_figure};

/// Rank of the longest gap or latency, in every 10,000.
const ALL: u16 = 10_000;

/// Answer of a run to a condition.
#[derive(Debug, Clone, PartialEq)]
pub struct ConditionAnswer {
    /// Figure of the run, in the figure's unit; `None` if unknown.
    pub value: Option<f64>,
    /// Whether the condition holds; `None` if unknown.
    pub holds: Option<bool>,
    /// Blind spots because of which the answer is unknown.
    pub blind_spots: Vec<BlindSpot>,
}

impl RunFigures {
    /// Returns whether the condition `holds` for this figure. The condition compares the figure
    /// with `limit`.
    pub fn answer(
        &self,
        figure: &ComparedFigure,
        limit: f64,
        holds: &dyn Fn(f64) -> bool,
    ) -> ConditionAnswer {
        let value = self.figure(figure);
        let spots = self.coverage.blind_spots(question(figure, limit));
        if spots.iter().any(BlindSpot::makes_data_unusable) {
            return ConditionAnswer {
                value,
                holds: None,
                blind_spots: spots,
            };
        }
        let Some(known) = value else {
            return ConditionAnswer {
                value,
                holds: None,
                blind_spots: spots,
            };
        };
        let bounds = self.bounds(figure);
        // The bounds already contain unplaced time, and time whose owner is unknown.
        let is_bounded = |it: &BlindSpot| {
            bounds.is_some() && matches!(it.hides(), HiddenKind::StatedTime | HiddenKind::Owners)
        };
        let (bounded, hidden): (Vec<_>, Vec<_>) = spots.into_iter().partition(is_bounded);
        let shown = bounds.unwrap_or([known; 2]);
        let possible = match hidden.is_empty() {
            true => shown,
            false => with_hidden(figure, shown),
        };
        let answer = decide(possible, holds);
        let blind_spots = match (answer, decide(shown, holds)) {
            (Some(_), _) => Vec::new(),
            (None, Some(_)) => hidden,
            (None, None) => [bounded, hidden].concat(),
        };
        ConditionAnswer {
            value,
            holds: answer,
            blind_spots,
        }
    }

    /// Returns the lower and the upper bound of a figure; `None` if the recording shows no bounds.
    fn bounds(&self, figure: &ComparedFigure) -> Option<[f64; 2]> {
        let Of::Cpus(sample) = &self.of else {
            return None;
        };
        let (whole, coverage) = (&sample.whole, &self.coverage);
        match figure {
            ComparedFigure::Noise | ComparedFigure::Gaps => {
                let (unplaced_ns, threshold_ns) = (coverage.unplaced_ns(), coverage.threshold_ns);
                let most = largest_figure(figure, whole, unplaced_ns, threshold_ns)?;
                Some([figure.of(whole)?, most])
            }
            ComparedFigure::Share(share) => share_bounds(sample, *share, 100.0, whole.runtime_ns),
            ComparedFigure::Delay(share) => {
                share_bounds(sample, *share, 1.0, whole.lengths.count())
            }
            _ => None,
        }
    }
}

/// Returns the bounds of the time of a share, multiplied by `factor` and divided by `divisor`.
fn share_bounds(sample: &RunSample, share: Share, factor: f64, divisor: u64) -> Option<[f64; 2]> {
    let bounds = Bounds::of_share(sample, share)?;
    let scaled = |ns: u64| ns as f64 * factor / divisor.max(1) as f64;
    Some([scaled(bounds.at_least_ns), scaled(bounds.at_most_ns)])
}

/// Returns the bounds of a figure if the recording hides an unknown amount of time.
fn with_hidden(figure: &ComparedFigure, [least, _]: [f64; 2]) -> [f64; 2] {
    match only_rises(figure) {
        true => [least, f64::INFINITY],
        false => [0.0, f64::INFINITY],
    }
}

/// Returns whether hidden time can only raise this figure. Hidden gaps and wake-ups may be short,
/// and then they lower a percentile or an average.
fn only_rises(figure: &ComparedFigure) -> bool {
    match figure {
        ComparedFigure::Percentile(rank) | ComparedFigure::Latency(_, rank) => *rank == ALL,
        ComparedFigure::Delay(_) | ComparedFigure::Reason(_, OfReason::P99) => false,
        _ => true,
    }
}

/// Returns whether the condition holds between these bounds; `None` if this depends on the value.
/// A condition has one limit, so both ends decide.
fn decide(bounds: [f64; 2], holds: &dyn Fn(f64) -> bool) -> Option<bool> {
    let [least, most] = bounds.map(holds);
    (least == most).then_some(least)
}

/// Returns the question whose blind spots matter for a condition on this figure.
fn question(figure: &ComparedFigure, limit: f64) -> Question {
    match figure {
        ComparedFigure::Noise
        | ComparedFigure::Gaps
        | ComparedFigure::Missed
        | ComparedFigure::Exits => Question::Taken,
        ComparedFigure::Percentile(ALL) | ComparedFigure::Latency(LatencyContext::User, ALL) => {
            Question::Longest(limit)
        }
        ComparedFigure::Percentile(_) | ComparedFigure::Latency(LatencyContext::User, _) => {
            Question::Often(limit)
        }
        ComparedFigure::Latency(LatencyContext::Irq | LatencyContext::Thread, ALL) => {
            Question::LongestProbed(limit)
        }
        ComparedFigure::Latency(LatencyContext::Irq | LatencyContext::Thread, _) => {
            Question::OftenProbed(limit)
        }
        ComparedFigure::Share(share) | ComparedFigure::Delay(share) => Question::TakenAs(*share),
        ComparedFigure::Reason(_, OfReason::Max) => Question::Longest(limit),
        ComparedFigure::Reason(..) => Question::Taken,
    }
}
