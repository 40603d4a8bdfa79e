//! JSON document `vmnoise.latency_join/1`.

use serde::Serialize;
use vmnoise_events::Share;
use vmnoise_explain::{
    ContextSides, CpuWakeups, GuestCulprit, JoinTree, JoinedLatencies, LatencyTotals, Pairing,
    VcpuPair, VmSide,
};

use crate::join::JoinResult;
use crate::join::document::HostNotes;
use crate::json::Head;
use crate::timerlat::document::LatencyEnding;

/// Document of a join of latencies. As in `vmnoise.latency/1`, the head, the figures of the CPUs
/// and the last members describe the guest's run.
#[derive(Debug, Serialize)]
pub struct JoinedLatencyDocument<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    host: HostNotes<'a>,
    pairs: &'a [VcpuPair],
    pairing: &'a Pairing,
    joined: LatencyTotals,
    above_ns: u64,
    culprits: Vec<OfWakeups<'a>>,
    trees: &'a [JoinTree],
    cpus: Vec<Cpu<'a>>,
    #[serde(flatten)]
    ending: LatencyEnding<'a>,
}

#[derive(Debug, Serialize)]
struct Cpu<'a> {
    #[serde(flatten)]
    wakeups: &'a CpuWakeups,
    contexts: &'a [ContextSides],
}

/// Culprit of late wake-ups: it has the member `wakeups` in place of `gaps`.
#[derive(Debug, Serialize)]
struct OfWakeups<'a> {
    side: VmSide,
    share: Share,
    name: Option<&'a str>,
    cpu: Option<u32>,
    wakeups: u64,
    total_ns: u64,
    max_ns: u64,
    percent: f64,
}

impl<'a> JoinedLatencyDocument<'a> {
    /// Creates the document of this join.
    pub fn new(
        joined: &JoinResult<'a>,
        latencies: &'a JoinedLatencies,
    ) -> JoinedLatencyDocument<'a> {
        let JoinResult { guest, host, run } = *joined;
        let wakeups = run.summary.wakeups.iter().flat_map(|wakeups| &wakeups.cpus);
        JoinedLatencyDocument {
            head: Head::new("vmnoise.latency_join/1", guest),
            host: HostNotes::new(host, &run.host),
            pairs: &run.pairs,
            pairing: &run.pairing,
            joined: latencies.joined,
            above_ns: run.above_ns,
            culprits: latencies.culprits.iter().map(of_wakeups).collect(),
            trees: &latencies.trees,
            cpus: wakeups
                .zip(&latencies.cpus)
                .map(|(wakeups, sides)| Cpu {
                    wakeups,
                    contexts: &sides.contexts,
                })
                .collect(),
            ending: LatencyEnding::of(&run.summary),
        }
    }
}

fn of_wakeups(culprit: &GuestCulprit) -> OfWakeups<'_> {
    let GuestCulprit {
        side,
        share,
        ref name,
        cpu,
        gaps,
        total_ns,
        max_ns,
        percent,
    } = *culprit;
    OfWakeups {
        side,
        share,
        name: name.as_deref(),
        cpu,
        wakeups: gaps,
        total_ns,
        max_ns,
        percent,
    }
}
