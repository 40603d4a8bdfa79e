//! JSON document `vmnoise.join/1`.

use serde::Serialize;
use vmnoise_events::{FinishReason, ProbeStatus, RunFacts, RunOptions};
use vmnoise_explain::{
    GuestCulprit, HostSide, JoinTree, JoinedTotals, Losses, Pairing, Summary, ThesisSum, VcpuPair,
};

use super::JoinResult;
use crate::json::Head;

/// Document of a join. The head and the summary describe the guest's run.
#[derive(Debug, Serialize)]
pub struct JoinDocument<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    host: HostNotes<'a>,
    pairs: &'a [VcpuPair],
    pairing: &'a Pairing,
    joined: JoinedTotals,
    above_ns: u64,
    culprits: &'a [GuestCulprit],
    trees: &'a [JoinTree],
    thesis: Option<ThesisSum>,
    #[serde(flatten)]
    summary: &'a Summary,
}

/// Members of the document about the host's recording.
#[derive(Debug, Serialize)]
pub struct HostNotes<'a> {
    tool_version: &'a str,
    kernel: &'a str,
    hypervisor: Option<&'a str>,
    started_at: &'a str,
    options: &'a RunOptions,
    threshold_ns: u64,
    lost_events: u64,
    late_events: u64,
    losses: Losses,
    complete: bool,
    finish_reason: Option<FinishReason>,
    #[serde(rename = "rungs")]
    probe_statuses: &'a [ProbeStatus],
}

impl<'a> JoinDocument<'a> {
    /// Creates the document of this join.
    pub fn new(joined: &JoinResult<'a>) -> JoinDocument<'a> {
        let JoinResult { guest, host, run } = *joined;
        JoinDocument {
            head: Head::new("vmnoise.join/1", guest),
            host: HostNotes::new(host, &run.host),
            pairs: &run.pairs,
            pairing: &run.pairing,
            joined: run.joined,
            above_ns: run.above_ns,
            culprits: &run.culprits,
            trees: &run.trees,
            thesis: run.thesis,
            summary: &run.summary,
        }
    }
}

impl<'a> HostNotes<'a> {
    /// Creates this part from the facts and the result of the host's recording.
    pub fn new(facts: &'a RunFacts, side: &'a HostSide) -> HostNotes<'a> {
        let HostSide {
            kernel,
            hypervisor,
            threshold_ns,
            // `options` already contains the reasons.
            only_reasons: _,
            losses,
            lost_events,
            late_events,
            complete,
            finish_reason,
        } = side;
        HostNotes {
            tool_version: &facts.tool_version,
            kernel,
            hypervisor: hypervisor.as_deref(),
            started_at: &facts.started_at,
            options: &facts.options,
            threshold_ns: *threshold_ns,
            lost_events: *lost_events,
            late_events: *late_events,
            losses: *losses,
            complete: *complete,
            finish_reason: *finish_reason,
            probe_statuses: &facts.probe_statuses,
        }
    }
}
