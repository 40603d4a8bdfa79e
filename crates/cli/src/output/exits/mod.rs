//! Exits as people and programs read them.

mod hist;
mod parts;
mod powers;
#[cfg(test)]
mod tests;
mod top;

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use vmnoise_events::{HostFacts, Rung};
use vmnoise_explain::ExitsSummary;

use super::{json, screen, text};
use crate::args::{ExitsHistArguments, Format};

/// A result and what it stands on.
pub struct Exits<'a> {
    /// Version of this program.
    pub tool_version: &'static str,
    /// The machine.
    pub facts: &'a HostFacts,
    /// Wall-clock start, RFC 3339 in UTC.
    pub started_at: &'a str,
    /// How long was counted.
    pub measured_ns: u64,
    /// What was counted.
    pub summary: &'a ExitsSummary,
    /// Events that the programs missed.
    pub lost_events: u64,
    /// vCPUs that found no room.
    pub lost_vcpus: u64,
    /// How it was witnessed.
    pub rungs: Vec<Rung>,
}

/// `vmnoise.exits/1`.
#[derive(Debug, Serialize)]
struct Document<'a> {
    schema: &'static str,
    tool_version: &'a str,
    kernel: &'a str,
    hypervisor: Option<&'a str>,
    started_at: &'a str,
    measured_ns: u64,
    #[serde(flatten)]
    summary: &'a ExitsSummary,
    lost_events: u64,
    lost_vcpus: u64,
    rungs: &'a [Rung],
}

/// How a result is shown.
#[derive(Debug, Clone, Copy)]
pub enum Layout<'a> {
    /// Tables by vCPU and by reason.
    Top,
    /// A histogram.
    Hist(&'a ExitsHistArguments),
}

impl Layout<'_> {
    fn render(self, measured: Duration, summary: &ExitsSummary) -> String {
        match self {
            Layout::Top => top::render(measured, summary),
            Layout::Hist(arguments) => hist::render(measured, summary, arguments),
        }
    }

    fn shows_what_it_rests_on(self) -> bool {
        match self {
            Layout::Top => true,
            Layout::Hist(arguments) => !arguments.no_summary,
        }
    }
}

/// Prints a result.
///
/// # Errors
/// If stdout cannot be written.
pub fn print(exits: &Exits<'_>, layout: Layout<'_>, format: Format) -> Result<()> {
    match format {
        Format::Text => {
            let measured = Duration::from_nanos(exits.measured_ns);
            let mut out = layout.render(measured, exits.summary);
            if layout.shows_what_it_rests_on() {
                out += "\n";
                out += &honesty(exits);
            }
            super::write(out.as_bytes())
        }
        Format::Json => {
            let document = Document {
                schema: "vmnoise.exits/1",
                tool_version: exits.tool_version,
                kernel: &exits.facts.kernel,
                hypervisor: exits.facts.hypervisor.as_deref(),
                started_at: exits.started_at,
                measured_ns: exits.measured_ns,
                summary: exits.summary,
                lost_events: exits.lost_events,
                lost_vcpus: exits.lost_vcpus,
                rungs: &exits.rungs,
            };
            let mut out = Vec::new();
            json::write(&mut out, &document)?;
            super::write(&out)
        }
    }
}

/// How it was witnessed, and what is missing.
fn honesty(exits: &Exits<'_>) -> String {
    let mut out = text::rungs(&exits.rungs);
    if exits.lost_vcpus > 0 {
        out += &format!(
            " {} vCPUs found no room and are not counted\n",
            exits.lost_vcpus
        );
    }
    out + &format!(" lost events: {}\n", exits.lost_events)
}

/// Draws what was counted so far over what is on the terminal.
pub fn redraw(measured: Duration, summary: &ExitsSummary) {
    screen::redraw(&top::render(measured, summary));
}
