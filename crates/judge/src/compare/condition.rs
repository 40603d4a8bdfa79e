//! Answers whether a condition holds for a run, and which blind spots prevent an answer.

use vmnoise_events::coverage::{BlindSpot, HiddenKind, Question};

use super::measured::{Of, RunFigures};
use super::{ComparedFigure, LatencyContext, OfReason, RunSample};
use crate::bounds::Bounds;

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
        let Some(least_most) = value.map(|value| self.range(figure, value)) else {
            return ConditionAnswer {
                value,
                holds: None,
                blind_spots: spots,
            };
        };
        // The bounds already contain time whose owner is unknown.
        let (owners, hidden): (Vec<_>, Vec<_>) = spots
            .into_iter()
            .partition(|it| it.hides() == HiddenKind::Owners);
        match least_most.map(holds) {
            [true, true] => ConditionAnswer {
                value,
                holds: Some(true),
                blind_spots: Vec::new(),
            },
            [false, false] if hidden.is_empty() => ConditionAnswer {
                value,
                holds: Some(false),
                blind_spots: Vec::new(),
            },
            [false, false] => ConditionAnswer {
                value,
                holds: None,
                blind_spots: hidden,
            },
            _ => ConditionAnswer {
                value,
                holds: None,
                blind_spots: [owners, hidden].concat(),
            },
        }
    }

    /// Returns the lower and the upper bound of a figure. Both are `value` if the recording shows
    /// no bounds.
    fn range(&self, figure: &ComparedFigure, value: f64) -> [f64; 2] {
        match (figure, &self.of) {
            (ComparedFigure::Share(share), Of::Cpus(sample)) => {
                let bounds = Bounds::of_share(sample, *share);
                let percent = |ns| percent_of(sample, ns);
                bounds.map_or([value; 2], |it| {
                    [percent(it.at_least_ns), percent(it.at_most_ns)]
                })
            }
            _ => [value; 2],
        }
    }
}

fn percent_of(sample: &RunSample, ns: u64) -> f64 {
    ns as f64 * 100.0 / sample.whole.runtime_ns.max(1) as f64
}

/// Returns the question whose blind spots matter for a condition on this figure.
fn question(figure: &ComparedFigure, limit: f64) -> Question {
    const ALL: u16 = 10_000;
    match figure {
        ComparedFigure::Noise
        | ComparedFigure::Gaps
        | ComparedFigure::Missed
        | ComparedFigure::Exits => Question::Taken,
        ComparedFigure::Percentile(ALL) | ComparedFigure::Latency(LatencyContext::User, ALL) => {
            Question::Longest(limit)
        }
        ComparedFigure::Latency(LatencyContext::Irq | LatencyContext::Thread, ALL) => {
            Question::Longest(limit)
        }
        ComparedFigure::Percentile(_) | ComparedFigure::Latency(..) => Question::Often(limit),
        ComparedFigure::Share(share) | ComparedFigure::Delay(share) => Question::TakenAs(*share),
        ComparedFigure::Reason(_, OfReason::Max) => Question::Longest(limit),
        ComparedFigure::Reason(..) => Question::Taken,
    }
}
