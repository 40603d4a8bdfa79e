//! What was taken from a command, for people and for programs.

mod bmf;
mod budget;
mod document;
mod text;

use anyhow::Result;

use super::format::RunFormat;
use crate::run::command::Done;
use crate::run::command::preflight::QuietCpu;
use vmnoise_judge::fitness::{Evidence, Judged};

/// A run and its verdict.
pub struct JudgedRun {
    /// The run.
    pub done: Done,
    /// What the verdict rests on.
    pub evidence: Evidence,
    /// The verdict.
    pub judged: Judged,
}

/// All runs of a command.
pub struct CommandResult {
    /// As it was given.
    pub command: String,
    /// The CPUs before it started, if they were looked at.
    pub preflight: Option<Vec<QuietCpu>>,
    /// The first one first: those before the last were unfit.
    pub runs: Vec<JudgedRun>,
}

/// All of it, with a newline at the end.
///
/// # Errors
/// If it cannot be written in this format.
pub fn render(format: RunFormat, result: &CommandResult) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    match format {
        RunFormat::Text => out = text::render(result).into_bytes(),
        RunFormat::Json => super::json::write(&mut out, &document::Document::new(result))?,
        RunFormat::Bmf => super::json::write(&mut out, &bmf::metrics(result))?,
    }
    Ok(out)
}
