//! Probes and limitations of both recordings of a join.

use vmnoise_events::{MeasuringCommand, human};
use vmnoise_explain::{HostSide, JoinedLatencies, JoinedRun, VcpuPair};

use super::JoinResult;
use crate::caveats as own;

/// Returns the `kvm` time without an upper bound, in nanoseconds.
fn unbounded_ns(run: &JoinedRun) -> u64 {
    match &run.latencies {
        None => run.joined.unbounded_kvm_ns,
        Some(JoinedLatencies { joined, .. }) => joined.unbounded_kvm_ns,
    }
}

/// Renders the probe statuses, losses and limitations of both recordings.
pub fn render(joined: &JoinResult<'_>) -> String {
    let run = joined.run;
    let mut out = format!(
        "\n{}: the guest (its lines call the guest's own kernel the host)\n{}",
        own::HEADING,
        own::lines(joined.guest, &run.summary)
    );
    let HostSide {
        threshold_ns,
        only_reasons,
        losses,
        lost_events,
        late_events,
        complete,
        ..
    } = &run.host;
    let found = run.pairing.candidates.first();
    let pairs = found.iter().flat_map(|vm| &vm.pairs);
    out.extend(pairs.filter_map(caveat));
    out += &format!(
        "\n{}: the host\n{}",
        own::HEADING,
        own::probes(&joined.host.probe_statuses)
    );
    if *threshold_ns > 0 {
        out += &format!(
            " exits with less than {} of noise were not recorded one by one\n",
            human(*threshold_ns)
        );
    }
    if !only_reasons.is_empty() {
        out += &format!(
            " exits were recorded one by one only for {}\n",
            only_reasons.join(", ")
        );
    }
    // For a microVM, the guest's lines already contain this line.
    if joined.guest.workload != MeasuringCommand::Microvm {
        out += &own::unbounded_kvm(unbounded_ns(run));
    }
    out += &format!(" lost events: {lost_events}{}\n", own::by_kind(losses));
    out += &own::late(*late_events);
    if !complete {
        out += " the run did not end in order: the result covers the time before\n";
    }
    out
}

/// Returns the limitation of a pair that its own data do not prove; `None` if they prove the pair.
fn caveat(pair: &VcpuPair) -> Option<String> {
    let cpu = pair.cpu;
    match (pair.joined, pair.leans_on) {
        (false, _) => Some(format!(
            " CPU {cpu} is not joined, because its vCPU is unknown: its time is as in the guest alone\n"
        )),
        (true, Some(proven)) => Some(format!(
            " CPU {cpu} is joined because of the proof for CPU {proven}: its own odds prove nothing, \
             and no other vCPU fits better\n"
        )),
        (true, None) => None,
    }
}
