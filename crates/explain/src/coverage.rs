//! Computes the coverage of a run from its facts and its result.

use vmnoise_events::coverage::{ClockCoverage, CpuCoverage, HostRecording, LostRecords, RunEnd};
use vmnoise_events::{FinishReason, MeasuringCommand, Share, ShareMap};

use crate::join::JoinedRun;
use crate::losses::Losses;
use crate::summary::{CpuSummary, Summary};
use crate::vcpus::ExitsRun;

/// Sets the coverage of a run of gaps or wake-ups.
pub(crate) fn state(summary: &mut Summary) {
    let reported: Vec<CpuCoverage> = summary
        .cpus
        .iter()
        .map(|cpu| of_cpu(summary, cpu))
        .collect();
    let lost = lost(
        summary.coverage.workload,
        &summary.losses,
        summary.late_events,
    );
    let incomplete = summary.cpus.iter().filter_map(|cpu| cpu.incomplete_gaps);
    let incomplete = incomplete.fold(0, u64::saturating_add);
    let unbounded_ns = summary.cpus.iter().filter_map(|cpu| cpu.unbounded_kvm_ns);
    let unbounded_kvm_ns = unbounded_ns.fold(0, u64::saturating_add);
    let known = ShareMap::from_fn(|share| is_known(summary, share));
    let more_taken_than_measured = {
        let sum = |of: fn(&CpuSummary) -> u64| {
            let cpus = summary.cpus.iter().map(of);
            cpus.fold(0, u64::saturating_add)
        };
        sum(|cpu| cpu.noise_ns) > sum(|cpu| cpu.runtime_ns.unwrap_or(0))
    };
    let coverage = &mut summary.coverage;
    for cpu in reported {
        match coverage.cpus.iter_mut().find(|it| it.cpu == cpu.cpu) {
            Some(known) => *known = cpu,
            None => coverage.cpus.push(cpu),
        }
    }
    // An observed thread may run on any CPU, but uses few.
    if coverage.workload == MeasuringCommand::Observed {
        coverage.cpus.retain(|cpu| cpu.window_mono_ns.is_some());
    }
    coverage.end = end(summary.finish_reason);
    coverage.lost = LostRecords {
        // Gaps with counters show lost records even if the stream reports no loss.
        names: lost.names.max(incomplete),
        ..lost
    };
    coverage.more_taken_than_measured = more_taken_than_measured;
    coverage.watched.known = known;
    coverage.watched.unbounded_kvm_ns = unbounded_kvm_ns;
    coverage.clock = ClockCoverage {
        bound_ns: summary.clock_bound_ns,
        went_back_at_ns: summary.tsc_went_back_at_ns,
        jumps: summary.clock_jumps.count,
        undated_ns: summary.clock_jumps.undated_ns,
    };
}

/// Sets the coverage of a run that records exits of vCPUs.
pub(crate) fn state_of_exits(run: &mut ExitsRun) {
    let vcpus = || run.exits.vms.iter().flat_map(|vm| &vm.vcpus);
    let is_known = |share| vcpus().all(|vcpu| vcpu.time_ns.taken[share].is_some());
    let known = ShareMap::from_fn(is_known);
    let coverage = &mut run.coverage;
    coverage.end = end(run.finish_reason);
    coverage.lost = lost(coverage.workload, &run.losses, run.late_events);
    coverage.watched.known = known;
}

/// Adds the coverage by a host's recording to the coverage of its guest.
pub(crate) fn state_of_host(run: &mut JoinedRun, hides_interrupts: bool) {
    let bounds_ns = run.pairs.iter().map(|pair| pair.bound_ns);
    let (all, covered, unsure) = match &run.latencies {
        Some(latencies) => {
            let joined = &latencies.joined;
            ((joined.wakeups, 0), (joined.witnessed, 0), joined.unsure)
        }
        None => {
            let joined = &run.joined;
            let noise_ns = run.summary.cpus.iter().map(|cpu| cpu.noise_ns);
            let noise_ns = noise_ns.fold(0, u64::saturating_add);
            (
                (joined.gaps, noise_ns),
                (joined.witnessed, joined.witnessed_ns),
                joined.unsure,
            )
        }
    };
    run.summary.coverage.host = Some(HostRecording {
        lost_names: run.host.lost_events.saturating_add(run.host.late_events),
        hidden_interrupts: hides_interrupts,
        clock_bound_ns: bounds_ns.max().unwrap_or(u64::MAX),
        unsure_ns: unsure.ns,
        uncovered_gaps: all.0.saturating_sub(covered.0),
        uncovered_ns: all.1.saturating_sub(covered.1),
    });
}

fn of_cpu(summary: &Summary, cpu: &CpuSummary) -> CpuCoverage {
    let runtime_ns = cpu.runtime_ns.unwrap_or(0);
    let window = cpu.measured_mono_ns.unwrap_or((0, runtime_ns));
    let not_measured_ns = cpu.not_measured_ns.unwrap_or(0);
    let looked_ns = runtime_ns.saturating_add(not_measured_ns);
    let polls = matches!(
        summary.coverage.workload,
        MeasuringCommand::Microvm | MeasuringCommand::Osnoise
    );
    CpuCoverage {
        cpu: cpu.cpu,
        window_mono_ns: has_reported(summary, cpu).then_some(window),
        not_measured_ns,
        // A workload that sleeps also observes nothing, but there are no gaps while it sleeps.
        unplaced_ns: match polls {
            true => (window.1.saturating_sub(window.0)).saturating_sub(looked_ns),
            false => 0,
        },
    }
}

fn has_reported(summary: &Summary, cpu: &CpuSummary) -> bool {
    match &summary.wakeups {
        Some(wakeups) => {
            let mut cpus = wakeups.cpus.iter();
            cpus.any(|it| it.cpu == cpu.cpu && it.count > 0)
        }
        None => cpu.runtime_ns.is_some(),
    }
}

fn end(reason: Option<FinishReason>) -> RunEnd {
    match reason {
        None => RunEnd::CutOff,
        Some(FinishReason::Failed) => RunEnd::Failed,
        Some(FinishReason::Duration | FinishReason::Stop | FinishReason::Interrupt) => {
            RunEnd::InOrder
        }
    }
}

/// Returns the lost records: those that may have been gaps, and those that only cost names. For an
/// observed thread, every lost record may have been a gap, because gaps are made of activities. For
/// exits, only a lost vCPU counts like a gap, because the kernel's own sums contain everything
/// else.
fn lost(workload: MeasuringCommand, losses: &Losses, late_events: u64) -> LostRecords {
    let gaps = match workload {
        MeasuringCommand::Observed => losses.total(),
        MeasuringCommand::Exits => losses.of_vcpus(),
        MeasuringCommand::Microvm | MeasuringCommand::Osnoise | MeasuringCommand::Timerlat => {
            losses.of_gaps()
        }
    };
    let names = losses.total().saturating_sub(gaps);
    LostRecords {
        gaps,
        names: names.saturating_add(late_events),
    }
}

fn is_known(summary: &Summary, share: Share) -> bool {
    match &summary.wakeups {
        Some(wakeups) => wakeups.cpus.iter().all(|it| it.shares_ns[share].is_some()),
        None => summary.cpus.iter().all(|it| it.shares_ns[share].is_some()),
    }
}
