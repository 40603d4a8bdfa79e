//! Documents of `--format json`: each is one object with a version (docs/json.md). Unknown values
//! are null.

use std::io::Write;

use anyhow::Result;
use serde::Serialize;
use vmnoise_events::{MeasuringCommand, RunFacts, RunOptions};
use vmnoise_explain::Summary;
use vmnoise_judge::compare::Unit;

use super::recorded::Origin;

/// Head of a document: facts of the run.
#[derive(Debug, Serialize)]
pub struct Head<'a> {
    schema: &'static str,
    tool_version: &'a str,
    kernel: &'a str,
    hypervisor: Option<&'a str>,
    started_at: &'a str,
    options: &'a RunOptions,
    rdtsc_cycles: u64,
}

impl<'a> Head<'a> {
    /// Creates the head of a document about this run.
    pub fn new(schema: &'static str, facts: &'a RunFacts) -> Head<'a> {
        Head {
            schema,
            tool_version: &facts.tool_version,
            kernel: &facts.host.kernel,
            hypervisor: facts.host.hypervisor.as_deref(),
            started_at: &facts.started_at,
            options: &facts.options,
            rdtsc_cycles: facts.rdtsc_cycles,
        }
    }
}

/// Identity of a recording, for documents about a verdict or about several recordings.
#[derive(Debug, Serialize)]
pub struct DocumentSubject<'a> {
    file: &'a str,
    tool_version: &'a str,
    kernel: &'a str,
    hypervisor: Option<&'a str>,
    started_at: &'a str,
    workload: MeasuringCommand,
    cpus: &'a [u32],
}

impl<'a> DocumentSubject<'a> {
    /// Creates the identity of the recording in this file.
    pub fn new(file: &'a str, facts: &'a RunFacts) -> DocumentSubject<'a> {
        DocumentSubject {
            file,
            tool_version: &facts.tool_version,
            kernel: &facts.host.kernel,
            hypervisor: facts.host.hypervisor.as_deref(),
            started_at: &facts.started_at,
            workload: facts.workload,
            cpus: &facts.options.cpus,
        }
    }

    /// Creates the identity of a recording on which a prediction is based.
    pub fn of(file: &'a str, origin: &'a Origin) -> DocumentSubject<'a> {
        DocumentSubject {
            file,
            tool_version: &origin.tool_version,
            kernel: &origin.kernel,
            hypervisor: origin.hypervisor.as_deref(),
            started_at: &origin.started_at,
            workload: origin.workload,
            cpus: &origin.cpus,
        }
    }
}

/// Returns the name of a unit in JSON.
pub const fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Percent => "percent",
        Unit::PerSecond => "per_second",
        Unit::Nanoseconds => "ns",
    }
}

/// JSON document `vmnoise.summary/1`.
#[derive(Debug, Serialize)]
pub struct SummaryDocument<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    #[serde(flatten)]
    summary: &'a Summary,
}

impl<'a> SummaryDocument<'a> {
    /// Creates the document of this run.
    pub fn new(facts: &'a RunFacts, summary: &'a Summary) -> SummaryDocument<'a> {
        SummaryDocument {
            head: Head::new("vmnoise.summary/1", facts),
            summary,
        }
    }
}

/// Writes the document as one object, and a newline.
///
/// # Errors
/// If `out` cannot be written.
pub fn write(out: &mut impl Write, document: &impl Serialize) -> Result<()> {
    serde_json::to_writer_pretty(&mut *out, document).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}
