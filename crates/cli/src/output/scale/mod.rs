//! What becomes of a program at each number of ranks, as text and as `vmnoise.scale/1`.

mod document;
mod limits;
mod text;

use anyhow::Result;
use vmnoise_events::Policy;
use vmnoise_events::coverage::{BlindSpot, Hides, Question};
use vmnoise_predict::Culprit;
use vmnoise_predict::scale::{AtScale, Prediction, Program};

use super::format::Format;
use crate::output::recorded::Recorded;

/// A prediction, and what it was made from.
pub struct Predicted<'a> {
    /// One of each host.
    pub recordings: &'a [Recorded],
    /// What runs on them.
    pub program: &'a Program,
    /// What becomes of it.
    pub prediction: &'a Prediction,
}

impl Predicted<'_> {
    /// What the recordings could not see of what an ordinary rank loses, each with its recording: the slowdowns are lower
    /// bounds then.
    pub fn blind_spots(&self) -> Vec<(&str, BlindSpot)> {
        let rank = Question::TakenFrom(Policy::Other(0));
        let all = self.recordings.iter().flat_map(|it| {
            let spots = it.coverage.blind_spots(rank).into_iter();
            spots.map(move |spot| (it.file.as_str(), spot))
        });
        all.filter(|(_, spot)| spot.hides() != Hides::StatedTime)
            .collect()
    }
}

/// Prints it.
///
/// # Errors
/// If stdout cannot be written.
pub fn print(format: Format, predicted: &Predicted<'_>) -> Result<()> {
    match format {
        Format::Text => super::write(text::render(predicted).as_bytes()),
        Format::Json => {
            let mut out = Vec::new();
            super::json::write(&mut out, &document::Document::new(predicted))?;
            super::write(&out)
        }
    }
}

/// By how much steps are longer than where nothing is taken, percent.
fn slowdown_percent(scale: &AtScale, step_ns: f64) -> f64 {
    100.0 * (step_ns / scale.undisturbed_ns - 1.0)
}

/// Returns how much of the time removing each suspect gains, in percent of a step with the recorded gaps.
fn gains_percent(scale: &AtScale) -> Vec<f64> {
    let without = scale.without_ns.iter();
    // Rounding takes nothing away.
    without
        .map(|without_ns| (100.0 * (1.0 - without_ns / scale.of_recorded_gaps_ns)).max(0.0))
        .collect()
}

/// A culprit as one word or two.
fn called(culprit: &Culprit) -> String {
    match &culprit.name {
        Some(name) => format!("{} {name}", culprit.share),
        None => culprit.share.name().to_owned(),
    }
}
