//! JSON document `vmnoise.latency/1` (docs/json.md). Unknown values are null.

use serde::Serialize;
use vmnoise_events::coverage::Coverage;
use vmnoise_events::{FinishReason, ProbeStatus, RunFacts};
use vmnoise_explain::{
    CpuFromFeed, CpuSummary, CpuWakeups, FeedSummary, Losses, NamedInterval, OwnCostSummary,
    Summary,
};

use crate::json::Head;

/// Result of a run of periodic tasks.
#[derive(Debug, Serialize)]
pub struct LatencyDocument<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    cpus: Vec<CpuDocument<'a>>,
    stopped_by: Option<&'a NamedInterval>,
    feed: Option<FeedSummary>,
    #[serde(flatten)]
    ending: LatencyEnding<'a>,
}

/// Last members of a document about periodic tasks.
#[derive(Debug, Serialize)]
pub struct LatencyEnding<'a> {
    /// Coverage of the run.
    #[serde(rename = "blind_spots")]
    coverage: &'a Coverage,
    lost_events: u64,
    losses: &'a Losses,
    late_events: u64,
    #[serde(rename = "rungs")]
    probe_statuses: &'a [ProbeStatus],
    own_cost: &'a OwnCostSummary,
    complete: bool,
    finish_reason: Option<FinishReason>,
}

#[derive(Debug, Serialize)]
struct CpuDocument<'a> {
    #[serde(flatten)]
    cpu: &'a CpuWakeups,
    /// Time for which the run was stopped on this CPU, in nanoseconds.
    not_measured_ns: Option<u64>,
    /// Time that the host took from this CPU, as reported by the feed.
    host: Option<&'a CpuFromFeed>,
    /// Wake-ups on this CPU that are among the longest latencies of the run.
    worst: Vec<&'a NamedInterval>,
}

impl<'a> LatencyDocument<'a> {
    /// Creates the document of this run. For a run without wake-ups, `cpus` is empty.
    pub fn new(facts: &'a RunFacts, summary: &'a Summary) -> LatencyDocument<'a> {
        let wakeups = summary.wakeups.as_ref();
        let worst = wakeups.map_or(&[][..], |wakeups| &wakeups.worst);
        let cpus = wakeups.map_or(&[][..], |wakeups| &wakeups.cpus);
        let document = |cpu: &'a CpuWakeups| CpuDocument {
            cpu,
            not_measured_ns: of_cpu(summary, cpu.cpu).and_then(|it| it.not_measured_ns),
            host: of_cpu(summary, cpu.cpu).and_then(|it| it.host.as_ref()),
            worst: worst.iter().filter(|it| it.cpu == cpu.cpu).collect(),
        };
        LatencyDocument {
            head: Head::new("vmnoise.latency/1", facts),
            cpus: cpus.iter().map(document).collect(),
            stopped_by: wakeups.and_then(|wakeups| wakeups.stopped_by.as_ref()),
            feed: summary.feed,
            ending: LatencyEnding::of(summary),
        }
    }
}

fn of_cpu(summary: &Summary, cpu: u32) -> Option<&CpuSummary> {
    summary.cpus.iter().find(|it| it.cpu == cpu)
}

impl<'a> LatencyEnding<'a> {
    /// Creates the last members for this run.
    pub fn of(summary: &'a Summary) -> LatencyEnding<'a> {
        LatencyEnding {
            coverage: &summary.coverage,
            lost_events: summary.lost_events,
            losses: &summary.losses,
            late_events: summary.late_events,
            probe_statuses: &summary.probe_statuses,
            own_cost: &summary.own_cost,
            complete: summary.complete,
            finish_reason: summary.finish_reason,
        }
    }
}
