//! Results of `scale`: the slowdown of a program for each number of ranks, as text and as JSON
//! document `vmnoise.scale/1`.

mod document;
mod limits;
mod text;

use anyhow::Result;
use vmnoise_events::Policy;
use vmnoise_events::coverage::{BlindSpot, HiddenKind, Question};
use vmnoise_predict::RecordCulprit;
use vmnoise_predict::scale::{AtScale, BspProgram, Prediction};

use super::format::Format;
use crate::recorded::ReadRecording;

/// Prediction and its inputs.
#[derive(Debug)]
pub struct ScalePrediction<'a> {
    /// Recordings, one for each host.
    pub recordings: &'a [ReadRecording],
    /// Program that runs on the hosts.
    pub program: &'a BspProgram,
    /// Prediction.
    pub prediction: &'a Prediction,
}

impl ScalePrediction<'_> {
    /// Returns the blind spots that hide losses of an ordinary rank, each with its recording. If
    /// there are any, the slowdowns are lower bounds. Stated time is not among them: the result has
    /// a line with its amount.
    pub fn blind_spots(&self) -> Vec<(&str, BlindSpot)> {
        let rank = Question::TakenFrom(Policy::Other(0));
        let all = self.recordings.iter().flat_map(|it| {
            let spots = it.coverage.blind_spots(rank).into_iter();
            spots.map(move |spot| (it.file.as_str(), spot))
        });
        all.filter(|(_, spot)| spot.hides() != HiddenKind::StatedTime)
            .collect()
    }
}

/// Prints the prediction.
///
/// # Errors
/// If stdout cannot be written.
pub fn print(format: Format, predicted: &ScalePrediction<'_>) -> Result<()> {
    match format {
        Format::Text => super::write(text::render(predicted).as_bytes()),
        Format::Json => {
            let mut out = Vec::new();
            super::json::write(&mut out, &document::Document::new(predicted))?;
            super::write(&out)
        }
    }
}

/// Returns by how many percent a step is longer than a step without noise.
fn slowdown_percent(scale: &AtScale, step_ns: f64) -> f64 {
    100.0 * (step_ns / scale.undisturbed_ns - 1.0)
}

/// Returns the time that the removal of each suspect saves, in percent of a step with the recorded
/// gaps.
fn gains_percent(scale: &AtScale) -> Vec<f64> {
    let without = scale.without_ns.iter();
    // Rounding must not produce a negative gain.
    without
        .map(|without_ns| (100.0 * (1.0 - without_ns / scale.of_recorded_gaps_ns)).max(0.0))
        .collect()
}

/// Returns the share of a culprit, and its name if known.
fn called(culprit: &RecordCulprit) -> String {
    match &culprit.name {
        Some(name) => format!("{} {name}", culprit.share),
        None => culprit.share.name().to_owned(),
    }
}
