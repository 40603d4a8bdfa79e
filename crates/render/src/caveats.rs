//! Last lines of each result: the status of its probes, and its limitations.

use vmnoise_events::coverage::{Coverage, Question};
use vmnoise_events::{MeasuringCommand, ProbeName, ProbeStatus, RunFacts, Share, human};
use vmnoise_explain::{Losses, Summary};

use super::cells::{number, percent, time};
use super::from_feed;

/// Heading of the lines about probes and limitations.
pub const HEADING: &str = "What this result rests on";

/// Returns a line that says why a result without BPF names no culprits, and what to do; empty with
/// BPF.
pub fn no_names(facts: &RunFacts) -> String {
    if !facts.witnesses.see_nothing() {
        return String::new();
    }
    let of_activities = |status: &&ProbeStatus| *status.probe == *ProbeName::Activities.name();
    let status = facts.probe_statuses.iter().find(of_activities);
    let remedy = status.map_or("run as root", |status| status.remedy.as_str());
    format!("No names without BPF: {remedy}\n")
}

/// Renders the heading, then the lines about probes, losses, clock bound, own cost and unexplained
/// time.
pub fn render(facts: &RunFacts, summary: &Summary) -> String {
    format!("{HEADING}\n{}", lines(facts, summary))
}

/// Returns the same lines as [`render`], without the heading.
pub fn lines(facts: &RunFacts, summary: &Summary) -> String {
    probes(&summary.probe_statuses) + &without_probes(facts, summary)
}

/// Returns the limitations of the result, without the status of its probes.
pub fn without_probes(facts: &RunFacts, summary: &Summary) -> String {
    let mut text = String::new();
    if facts.shares_cpu {
        text += " the tool's own threads ran on measured CPUs: they are part of the noise\n";
    }
    text += &format!(
        " lost events: {}{}, late: {}\n",
        summary.lost_events,
        match by_kind(&summary.losses) {
            kinds if kinds.is_empty() => kinds,
            kinds => format!("{kinds}: maxima are lower bounds"),
        },
        summary.late_events
    );
    text += &expiries_meanwhile(summary);
    let incomplete_gaps = summary.cpus.iter().filter_map(|cpu| cpu.incomplete_gaps);
    let incomplete_gaps: u64 = incomplete_gaps.sum();
    if incomplete_gaps > 0 {
        text += &format!(
            " gaps with lost activities: {incomplete_gaps}; the rest of these gaps is unexplained\n"
        );
    }
    text += &exit_check(facts, summary);
    // For other workloads, a join prints this line among the host's lines.
    if facts.workload == MeasuringCommand::Microvm {
        let unbounded_ns = summary.cpus.iter().filter_map(|cpu| cpu.unbounded_kvm_ns);
        text += &unbounded_kvm(unbounded_ns.fold(0, u64::saturating_add));
    }
    for cpu in &summary.cpus {
        if let Some(count) = cpu.smi_count {
            text += &format!(" SMIs of CPU {}: {count}\n", cpu.cpu);
        }
    }
    text += &steal_outside_gaps(facts, summary);
    let noise = match facts.workload {
        // Wake-ups and the kernel's work have timestamps of one clock, so there is no clock error.
        MeasuringCommand::Timerlat => "latency",
        _ => {
            text += &format!(" clock bound: {}\n", time(summary.clock_bound_ns));
            "noise"
        }
    };
    text += &format!(
        " own cost: {} BPF runs, {} in all ({} % of a measured CPU's time)\n",
        number(summary.own_cost.bpf_runs),
        time(summary.own_cost.bpf_ns),
        percent(summary.own_cost.percent_of_runtime),
    );
    text += &from_feed::limits(summary);
    text += &format!(
        " unexplained: {} % of the {noise} is residual\n",
        percent(summary.residual_percent_of_noise)
    );
    text += &not_seen(&summary.coverage);
    text
}

/// Returns a line for each blind spot of the recording, with its remedy.
pub fn not_seen(coverage: &Coverage) -> String {
    let spots = coverage.blind_spots(Question::Anything).into_iter();
    spots.map(|spot| format!(" not seen: {spot}\n")).collect()
}

/// Returns a line about timer expiries while the run was stopped or held; empty if there were none.
fn expiries_meanwhile(summary: &Summary) -> String {
    let wakeups = summary.wakeups.iter().flat_map(|wakeups| &wakeups.cpus);
    match wakeups.map(|cpu| cpu.not_measured).sum::<u64>() {
        0 => String::new(),
        expiries => format!(" {expiries} expiries came while the run was stopped or held\n"),
    }
}

/// Returns a line for each probe, with its status and its limitation.
pub fn probes(probe_statuses: &[ProbeStatus]) -> String {
    let mut text = String::new();
    for probe_status in probe_statuses {
        text += &format!(" {}: {}", probe_status.probe, probe_status.in_use);
        if !probe_status.limit.is_empty() {
            text += &format!("; {}", probe_status.limit);
        }
        text += "\n";
    }
    text
}

/// Returns a line about `kvm` time without an upper bound, which may hide unexplained time. The
/// line is empty if `ns` is 0.
pub fn unbounded_kvm(ns: u64) -> String {
    match ns {
        0 => String::new(),
        ns => format!(
            " {} of kvm without an upper bound: too few exits for the same reason show KVM's usual time\n",
            human(ns)
        ),
    }
}

/// Returns a line for each CPU that compares the traced exits with KVM's own count. The two counts
/// are independent.
fn exit_check(facts: &RunFacts, summary: &Summary) -> String {
    let mut text = String::new();
    for cpu in summary.cpus.iter().filter(|_| facts.witnesses.kvm_exit) {
        if let (Some(light), Some(heavy), Some(all)) =
            (cpu.exits.light, cpu.exits.heavy, cpu.exits.kvm_stat)
        {
            text += &format!(
                " exits of CPU {}: {} traced, {all} by KVM's own statistics\n",
                cpu.cpu,
                light + heavy
            );
        }
    }
    text
}

/// Returns a line for each CPU of an observed thread: its steal time, and the part of this time in
/// gaps. The rest of the steal time passed while the thread ran, and only its sum is known.
fn steal_outside_gaps(facts: &RunFacts, summary: &Summary) -> String {
    let mut text = String::new();
    for cpu in summary
        .cpus
        .iter()
        .filter(|_| facts.workload == MeasuringCommand::Observed)
    {
        if let (Some(clock_ns), Some(booked_ns)) = (cpu.steal_clock_ns, cpu.shares_ns[Share::Steal])
        {
            text += &format!(
                " steal while the thread could run on CPU {}: {} by the steal clock, {} of it in gaps\n",
                cpu.cpu,
                human(clock_ns),
                human(booked_ns),
            );
        }
    }
    text
}

/// Returns a line about events that came after their time had been explained; empty if there were
/// none.
pub fn late(events: u64) -> String {
    match events {
        0 => String::new(),
        _ => {
            format!(" {events} events came too late: their time had been explained without them\n")
        }
    }
}

/// Returns the number of lost records of each kind, in parentheses; empty if no record was lost.
pub fn by_kind(losses: &Losses) -> String {
    let lost = losses.iter().filter(|(_, count)| *count > 0);
    let kinds: Vec<String> = lost
        .map(|(kind, count)| format!("{} {count}", kind.name()))
        .collect();
    match kinds.is_empty() {
        true => String::new(),
        false => format!(" ({})", kinds.join(", ")),
    }
}
