//! A verdict, for people and for programs.

mod config_map;
mod document;
mod github;
mod junit;
mod lava;
mod text;
mod words;

use anyhow::Result;
use vmnoise_judge::check::{Evidence, Judged};

use super::format::CheckFormat;

/// A recording, judged.
pub struct Checked<'a> {
    /// Where it lies.
    pub file: String,
    /// The verdict.
    pub judged: Judged,
    /// What it rests on.
    pub evidence: &'a Evidence,
}

/// All of it, with a newline at the end.
///
/// # Errors
/// If it cannot be written in this format.
pub fn render(format: CheckFormat, checked: &Checked<'_>) -> Result<Vec<u8>> {
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
