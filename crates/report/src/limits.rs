//! Facts about the machine and the run, as text.

use vmnoise_events::{ExitFilter, FinishReason, Policy, RunFacts};

use crate::figures::{duration, ranges};
use crate::run::{ReportedRun, RunOutcome};

/// Returns the name and the value of each fact.
pub(crate) fn facts(run: &ReportedRun) -> Vec<(&'static str, String)> {
    let RunFacts { options, host, .. } = &run.facts;
    let mut facts = vec![
        ("started at", run.facts.started_at.to_string()),
        ("begin", begin(run)),
        ("lasted", duration(run.lasted_ns())),
        ("planned", duration(options.duration_ns)),
        ("machine", host.cpu_model.to_string()),
        ("kernel", host.kernel.to_string()),
        (
            "hypervisor",
            host.hypervisor
                .as_deref()
                .unwrap_or("none: bare metal")
                .to_owned(),
        ),
        ("clock source", host.clocksource.to_string()),
        ("measured CPUs", ranges(&options.cpus)),
        ("threshold", duration(options.threshold_ns)),
        (
            "priority",
            options.priority.map_or_else(|| "inherited".into(), policy),
        ),
        ("ended", ended(run).into()),
        ("vmnoise", run.facts.tool_version.to_string()),
    ];
    if let Some(timer) = &options.timer {
        facts.push(("period of the tasks", duration(timer.period_ns)));
    }
    facts.push(("exits reported one by one", reported_exits(run)));
    if let Some(module) = &host.kvm_module {
        facts.push(("KVM module", module.to_string()));
    }
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

/// Returns the begin of the run on the clock of the other outputs. Times on the page are relative
/// to this begin.
fn begin(run: &ReportedRun) -> String {
    let machine = match run.outcome {
        RunOutcome::Joined(_) => " of the guest",
        RunOutcome::Gaps(_) | RunOutcome::Wakeups(_) | RunOutcome::Exits(_) => "",
    };
    let ns = run.origin_mono_ns();
    format!(
        "{}.{:09} s of CLOCK_MONOTONIC{machine}",
        ns / 1_000_000_000,
        ns % 1_000_000_000
    )
}

/// Returns the exit filter of the run, or of its host, as text. Empty if there is no filter, or if
/// there are no exits.
fn reported_exits(run: &ReportedRun) -> String {
    let everything = ExitFilter::default();
    let (filter, host) = match &run.outcome {
        RunOutcome::Exits(_) => (run.facts.options.exits.as_ref(), None),
        RunOutcome::Joined(joined) => (None, Some(&joined.host)),
        RunOutcome::Gaps(_) | RunOutcome::Wakeups(_) => (None, None),
    };
    let ExitFilter { vm, vcpus, reasons } = filter.unwrap_or(&everything);
    let reasons = host.map_or(reasons, |host| &host.only_reasons);
    let of = vm.iter().map(|vm| format!("of {vm}"));
    let numbers = vcpus
        .iter()
        .map(|vcpus| format!("of vCPU {}", ranges(vcpus)));
    let for_reasons = (!reasons.is_empty()).then(|| format!("only for {}", reasons.join(", ")));
    let threshold_ns = host.map_or(0, |host| host.threshold_ns);
    let from = (threshold_ns > 0).then(|| format!("from {} of noise", duration(threshold_ns)));
    let reported = of.chain(numbers).chain(for_reasons).chain(from);
    reported.collect::<Vec<_>>().join(", ")
}

fn policy(policy: Policy) -> String {
    match policy {
        Policy::Other(nice) => format!("SCHED_OTHER, nice {nice}"),
        Policy::Fifo(priority) => format!("SCHED_FIFO {priority}"),
        Policy::RoundRobin(priority) => format!("SCHED_RR {priority}"),
        Policy::Deadline {
            runtime_ns,
            period_ns,
        } => format!(
            "SCHED_DEADLINE, {} of every {}",
            duration(runtime_ns),
            duration(period_ns)
        ),
    }
}

fn ended(run: &ReportedRun) -> &'static str {
    let (reason, complete) = match &run.outcome {
        RunOutcome::Exits(exits) => (exits.finish_reason, exits.complete),
        RunOutcome::Gaps(summary) | RunOutcome::Wakeups(summary) => {
            (summary.finish_reason, summary.complete)
        }
        RunOutcome::Joined(joined) => (joined.summary.finish_reason, joined.summary.complete),
    };
    match reason.filter(|_| complete) {
        Some(FinishReason::Duration) => "after its duration",
        Some(FinishReason::Stop) => "at a limit",
        Some(FinishReason::Interrupt) => "when it was interrupted",
        Some(FinishReason::Failed) => "early, because its workload ended",
        None => "not in order: the page covers the time before",
    }
}
