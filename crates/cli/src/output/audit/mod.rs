//! An audit, for people, for programs, and as scripts.

mod document;
mod junit;
mod markdown;
mod node_labels;
mod report;
mod script;
mod text;
mod words;

use anyhow::Result;
use serde::Serialize;
use vmnoise_audit::Audit;
use vmnoise_events::coverage::Coverage;
use vmnoise_events::{HostFacts, Name};

use self::document::{Document, PairDocument};
use self::report::Report;
use super::format::AuditFormat;
use crate::status::UsageError;

pub use script::scripts;

/// Which machine was audited.
pub struct Of {
    /// What it says of itself.
    pub facts: HostFacts,
    /// When it was so, RFC 3339 in UTC; `None` is now.
    pub recorded_at: Option<Name>,
    /// Whether it is this machine since its last start: what the recording does not say is as it is now.
    pub is_here: bool,
    /// The CPUs in question.
    pub cpus: Vec<u32>,
}

/// A machine, audited.
pub struct Audited {
    /// Which machine.
    pub of: Of,
    /// The noise of the recording, nanoseconds; `None` without one.
    pub noise_ns: Option<u64>,
    /// Records that the run of the recording lost.
    pub lost_events: u64,
    /// What the recording could see; `None` without one.
    pub coverage: Option<Coverage>,
    /// What was found.
    pub audit: Audit,
}

/// A guest and its host, audited.
pub struct PairAudited {
    /// The guest by itself.
    pub guest: Audited,
    /// The host by itself.
    pub host: Audited,
    /// What neither is by itself.
    pub both: Audit,
    /// What the guest lost, nanoseconds.
    pub noise_ns: u64,
    /// How much of it has a finding, nanoseconds.
    pub explained_ns: u64,
}

/// Prints what was found of one machine.
///
/// # Errors
/// If stdout cannot be written.
pub fn print(format: AuditFormat, audited: &Audited) -> Result<()> {
    match format {
        AuditFormat::Json => print_json(&Document::new(audited)),
        AuditFormat::NodeLabels => super::write(node_labels::render(&audited.audit).as_bytes()),
        _ => print_report(format, &Report::of_one(audited)),
    }
}

/// Prints what was found of a guest and its host.
///
/// # Errors
/// If stdout cannot be written, or the format is of one machine.
pub fn print_pair(format: AuditFormat, audited: &PairAudited) -> Result<()> {
    match format {
        AuditFormat::Json => print_json(&PairDocument::new(audited)),
        AuditFormat::NodeLabels => {
            Err(UsageError("labels are of one node: name one recording".into()).into())
        }
        _ => print_report(format, &Report::of_pair(audited)),
    }
}

fn print_json(document: &impl Serialize) -> Result<()> {
    let mut out = Vec::new();
    super::json::write(&mut out, document)?;
    super::write(&out)
}

fn print_report(format: AuditFormat, report: &Report<'_>) -> Result<()> {
    let text = match format {
        AuditFormat::Junit => junit::render(report)?,
        AuditFormat::Markdown => markdown::render(report),
        _ => text::render(report),
    };
    super::write(text.as_bytes())
}
