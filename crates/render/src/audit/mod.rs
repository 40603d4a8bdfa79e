//! Results of an audit: as text, as documents for programs, and as shell scripts.

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
    /// Time of the recording (RFC 3339, UTC); `None` if all settings are read now.
    pub recorded_at: Option<Name>,
    /// Whether the audited machine is this one, and has not rebooted since the recording. If so,
    /// vmnoise reads the settings that the recording lacks now.
    pub is_here: bool,
    /// CPUs that were audited.
    pub cpus: Vec<u32>,
}

/// Audit of one machine.
#[derive(Debug)]
pub struct AuditedMachine {
    /// Machine that was audited.
    pub of: AuditSubject,
    /// Noise in the recording, in nanoseconds; `None` without a recording.
    pub noise_ns: Option<u64>,
    /// Number of records that were lost during the recorded run.
    pub lost_events: u64,
    /// Coverage of the recording; `None` without a recording.
    pub coverage: Option<Coverage>,
    /// Result of each rule.
    pub audit: Audit,
}

/// Audit of a guest and its host.
#[derive(Debug)]
pub struct PairAudited {
    /// Audit of the guest alone.
    pub guest: AuditedMachine,
    /// Audit of the host alone.
    pub host: AuditedMachine,
    /// Findings that concern guest and host together.
    pub both: Audit,
    /// Noise of the guest, in nanoseconds.
    pub noise_ns: u64,
    /// Part of the guest's noise that findings explain, in nanoseconds.
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
/// If stdout cannot be written, or if the format allows only one machine.
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
