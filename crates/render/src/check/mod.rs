//! Results of `check`, for people and programs.

mod config_map;
mod document;
mod github;
mod junit;
mod lava;
mod text;
mod words;

use anyhow::Result;
use vmnoise_judge::check::{BudgetEvidence, CheckVerdict};

use super::format::CheckFormat;

/// Verdict on a recording.
#[derive(Debug)]
pub struct CheckResult<'a> {
    /// Path of the recording.
    pub file: String,
    /// Verdict.
    pub judged: CheckVerdict,
    /// Evidence for the verdict.
    pub evidence: &'a BudgetEvidence,
}

/// Renders the result; the output ends with a newline.
///
/// # Errors
/// If the result cannot be written in this format.
pub fn render(format: CheckFormat, checked: &CheckResult<'_>) -> Result<Vec<u8>> {
    Ok(match format {
        CheckFormat::Text => text::render(checked).into_bytes(),
        CheckFormat::Json => {
            let mut out = Vec::new();
            super::json::write(&mut out, &document::Document::new(checked))?;
            out
        }
        CheckFormat::Junit => junit::render(checked)?.into_bytes(),
        CheckFormat::Github => github::render(checked).into_bytes(),
        CheckFormat::Lava => lava::render(checked).into_bytes(),
        CheckFormat::ConfigMap => {
            let mut out = Vec::new();
            super::json::write(&mut out, &config_map::patch(checked)?)?;
            out
        }
    })
}
