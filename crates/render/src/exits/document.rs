//! JSON document `vmnoise.exits/1`.

use serde::Serialize;
use vmnoise_events::ProbeStatus;
use vmnoise_events::coverage::Coverage;
use vmnoise_explain::{ExitsSummary, Losses};
use vmnoise_views::{FeedReport, VcpusResult};

use super::longest::LongestExitRow;
use crate::json::Head;

/// Result of a run that measured exits.
#[derive(Debug, Serialize)]
pub struct ExitsDocument<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    measured_ns: u64,
    #[serde(flatten)]
    exits: &'a ExitsSummary,
    longest: Vec<LongestExitRow<'a>>,
    /// Number of exits that were reported one by one; `None` if the user did not ask for this.
    #[serde(rename = "told")]
    reported: Option<u64>,
    unnamed_ns: Option<u64>,
    surplus_kvm_ns: Option<u64>,
    unbounded_kvm_ns: Option<u64>,
    /// Coverage of the run.
    #[serde(rename = "blind_spots")]
    coverage: &'a Coverage,
    lost_events: u64,
    late_events: u64,
    losses: Losses,
    feeds: &'a [FeedReport],
    #[serde(rename = "rungs")]
    probe_statuses: &'a [ProbeStatus],
}

impl<'a> ExitsDocument<'a> {
    /// Creates the document of this run.
    pub fn new(result: &VcpusResult<'a>) -> ExitsDocument<'a> {
        let VcpusResult {
            facts, run, feeds, ..
        } = *result;
        ExitsDocument {
            head: Head::new("vmnoise.exits/1", facts),
            measured_ns: u64::try_from(result.measured.as_nanos()).unwrap_or(u64::MAX),
            exits: &run.exits,
            longest: run.longest.iter().map(LongestExitRow::new).collect(),
            reported: facts.options.trace.then_some(run.reported),
            unnamed_ns: facts.options.trace.then_some(run.unnamed_ns),
            surplus_kvm_ns: run.surplus_kvm_ns,
            unbounded_kvm_ns: run.unbounded_kvm_ns,
            coverage: &run.coverage,
            lost_events: run.lost_events,
            late_events: run.late_events,
            losses: run.losses,
            feeds,
            probe_statuses: &run.probe_statuses,
        }
    }
}
