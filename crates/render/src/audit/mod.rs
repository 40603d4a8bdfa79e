//! Results of an audit, for people and programs, and as scripts.

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
use vmnoise_console::status::UsageError;
use vmnoise_events::coverage::Coverage;
use vmnoise_events::{HostFacts, Name};

use self::document::{Document, PairDocument};
use self::report::Report;
use super::format::AuditFormat;

pub use script::scripts;

/// Machine that was audited.
#[derive(Debug)]
pub struct AuditSubject {
    /// Facts about the machine.
    pub facts: HostFacts,
    /// Time of the recording, RFC 3339 in UTC; `None` means now.
    pub recorded_at: Option<Name>,
    /// Whether the recording is of this machine since its last boot. If so, settings missing in the
    /// recording are read now.
    pub is_here: bool,
    /// Audited CPUs.
    pub cpus: Vec<u32>,
}

/// Audit of one machine.
#[derive(Debug)]
pub struct AuditedMachine {
    /// Machine that was audited.
    pub of: AuditSubject,
    /// Noise in the recording, in nanoseconds; `None` without a recording.
    pub noise_ns: Option<u64>,
    /// Number of records that the run of the recording lost.
    pub lost_events: u64,
    /// Coverage of the recording; `None` without one.
    pub coverage: Option<Coverage>,
    /// Findings.
    pub audit: Audit,
}

/// Audit of a guest and its host.
#[derive(Debug)]
pub struct PairAudited {
    /// Audit of the guest alone.
    pub guest: AuditedMachine,
    /// Audit of the host alone.
    pub host: AuditedMachine,
    /// Findings that concern both together.
    pub both: Audit,
    /// Time that the guest lost, in nanoseconds.
    pub noise_ns: u64,
    /// Part of this time that findings explain, in nanoseconds.
    pub explained_ns: u64,
}

/// Prints the audit of one machine.
///
/// # Errors
/// If stdout cannot be written.
pub fn print(format: AuditFormat, audited: &AuditedMachine) -> Result<()> {
    match format {
        AuditFormat::Json => print_json(&Document::new(audited)),
        AuditFormat::NodeLabels => super::write(node_labels::render(&audited.audit).as_bytes()),
        _ => print_report(format, &Report::of_one(audited)),
    }
}

/// Prints the audit of a guest and its host.
///
/// # Errors
/// If stdout cannot be written, or if the format allows one machine only.
pub fn print_pair(format: AuditFormat, audited: &PairAudited) -> Result<()> {
    match format {
        AuditFormat::Json => print_json(&PairDocument::new(audited)),
        AuditFormat::NodeLabels => {
            Err(UsageError("node labels are for one machine: name one recording".into()).into())
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
