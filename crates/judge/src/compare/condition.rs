//! Whether a condition holds for a run, as far as its recording could see.

use vmnoise_events::coverage::{BlindSpot, Hides, Question};

use super::measured::{Measured, Of};
use super::{Context, Figure, OfReason, Sample};
use crate::bounds::Bounds;

/// Answer of a run to a condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Figure of the run, in its unit; `None` if unknown.
    pub value: Option<f64>,
    /// Whether the condition holds; `None` if unknown.
    pub holds: Option<bool>,
    /// Blind spots that are the reason for an unknown answer.
    pub blind_spots: Vec<BlindSpot>,
}

impl Measured {
    /// Returns whether a condition holds that compares a figure with this limit.
    pub fn answer(&self, figure: &Figure, limit: f64, holds: &dyn Fn(f64) -> bool) -> Answer {
        let value = self.figure(figure);
        let spots = self.coverage.blind_spots(question(figure, limit));
        let Some(least_most) = value.map(|value| self.range(figure, value)) else {
            return Answer {
                value,
                holds: None,
                blind_spots: spots,
            };
        };
        // The bounds already contain time whose owner is unknown.
        let (owners, hidden): (Vec<_>, Vec<_>) = spots
            .into_iter()
            .partition(|it| it.hides() == Hides::Owners);
        match least_most.map(holds) {
            [true, true] => Answer {
                value,
                holds: Some(true),
                blind_spots: Vec::new(),
            },
            [false, false] if hidden.is_empty() => Answer {
                value,
                holds: Some(false),
                blind_spots: Vec::new(),
            },
            [false, false] => Answer {
                value,
                holds: None,
                blind_spots: hidden,
            },
            _ => Answer {
                value,
                holds: None,
                blind_spots: [owners, hidden].concat(),
            },
        }
    }

    /// Returns the bounds of a figure, as far as recorded.
    fn range(&self, figure: &Figure, value: f64) -> [f64; 2] {
        match (figure, &self.of) {
            (Figure::Share(share), Of::Cpus(sample)) => {
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

fn percent_of(sample: &Sample, ns: u64) -> f64 {
    ns as f64 * 100.0 / sample.whole.runtime_ns.max(1) as f64
}

/// Returns the question that such a condition asks of a recording.
fn question(figure: &Figure, limit: f64) -> Question {
    const ALL: u16 = 10_000;
    match figure {
        Figure::Noise | Figure::Gaps | Figure::Missed | Figure::Exits => Question::Taken,
        Figure::Percentile(ALL) | Figure::Latency(Context::User, ALL) => Question::Longest(limit),
        Figure::Latency(Context::Irq | Context::Thread, ALL) => Question::Longest(limit),
        Figure::Percentile(_) | Figure::Latency(..) => Question::Often(limit),
        Figure::Share(share) | Figure::Delay(share) => Question::TakenAs(*share),
        Figure::Reason(_, OfReason::Max) => Question::Longest(limit),
        Figure::Reason(..) => Question::Taken,
    }
}
