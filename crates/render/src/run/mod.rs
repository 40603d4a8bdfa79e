//! Results of `run` for people and programs: the time taken from a command.

mod bmf;
mod budget;
mod document;
mod text;

use anyhow::Result;
use vmnoise_events::coverage::{BlindSpot, Question};
use vmnoise_judge::fitness::{FitnessEvidence, FitnessVerdict, LimitedFigure};
use vmnoise_views::{CommandRun, QuietCpu};

use super::format::RunFormat;

/// Run of the command, with its verdict.
#[derive(Debug)]
pub struct JudgedRun {
    /// Finished run of the command.
    pub done: CommandRun,
    /// Evidence for the verdict.
    pub evidence: FitnessEvidence,
    /// Verdict.
    pub judged: FitnessVerdict,
}

impl JudgedRun {
    /// Returns the blind spots that concern the limits. A short preflight concerns only `max`.
    fn blind_spots(&self) -> Vec<BlindSpot> {
        let mut limits = self.judged.judgements.iter().map(|it| it.limit.figure);
        let question = match limits.any(|it| it == LimitedFigure::Max) {
            true => Question::Anything,
            false => Question::Taken,
        };
        self.evidence.coverage.blind_spots(question)
    }
}

/// Results of all runs of a command.
#[derive(Debug)]
pub struct CommandResult {
    /// Command line.
    pub command: String,
    /// Noise and rate of each CPU before the command started; `None` if the user did not ask for
    /// this check.
    pub preflight: Option<Vec<QuietCpu>>,
    /// Runs in order. All runs except the last were unfit.
    pub runs: Vec<JudgedRun>,
}

/// Renders the result; the output ends with a newline.
///
/// # Errors
/// If the result cannot be written in this format.
pub fn render(format: RunFormat, result: &CommandResult) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    match format {
        RunFormat::Text => out = text::render(result).into_bytes(),
        RunFormat::Json => super::json::write(&mut out, &document::Document::new(result))?,
        RunFormat::Bmf => super::json::write(&mut out, &bmf::metrics(result))?,
    }
    Ok(out)
}
