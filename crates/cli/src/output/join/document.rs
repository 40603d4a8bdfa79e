//! JSON document `vmnoise.join/1`.

use serde::Serialize;
use vmnoise_events::{FinishReason, Options, ProbeStatus, RunFacts};
use vmnoise_explain::{
    Culprit, HostSide, JoinedTotals, Losses, Pair, Pairing, Summary, ThesisSum, Tree,
};

use super::Joined;
use crate::output::json::Head;

/// Document of a join; the head and the summary are the guest's.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    host: Host<'a>,
    pairs: &'a [Pair],
    pairing: &'a Pairing,
    joined: JoinedTotals,
    above_ns: u64,
    culprits: &'a [Culprit],
    trees: &'a [Tree],
    thesis: Option<ThesisSum>,
    #[serde(flatten)]
    summary: &'a Summary,
}

/// Part of the document about the host's recording.
#[derive(Debug, Serialize)]
pub struct Host<'a> {
    tool_version: &'a str,
    kernel: &'a str,
    hypervisor: Option<&'a str>,
    started_at: &'a str,
    options: &'a Options,
    threshold_ns: u64,
    lost_events: u64,
    late_events: u64,
    losses: Losses,
    complete: bool,
    finish_reason: Option<FinishReason>,
    #[serde(rename = "rungs")]
    probe_statuses: &'a [ProbeStatus],
}

impl<'a> Document<'a> {
    /// Creates the document of this join.
    pub fn new(joined: &Joined<'a>) -> Document<'a> {
        let Joined { guest, host, run } = *joined;
        Document {
            head: Head::new("vmnoise.join/1", guest),
            host: Host::new(host, &run.host),
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

impl<'a> Host<'a> {
    /// Creates the part from the host's facts and the result of its stream.
    pub fn new(facts: &'a RunFacts, side: &'a HostSide) -> Host<'a> {
        let HostSide {
            kernel,
            hypervisor,
            threshold_ns,
            // The options contain this.
            only_reasons: _,
            losses,
            lost_events,
            late_events,
            complete,
            finish_reason,
        } = side;
        Host {
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
