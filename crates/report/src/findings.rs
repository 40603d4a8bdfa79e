//! Findings about a run as sentences: who took the time, the largest part first.

use std::cmp::Reverse;

use vmnoise_explain::{ContextSides, Phase, Summary};

use crate::figures::{count, duration, part_of, percent, seconds, sum, times};
use crate::groups::{Group, grouped};
use crate::phases;
use crate::run::{ReportedRun, RunOutcome};

/// Largest number of culprits that get a finding.
const TAKERS: usize = 5;
/// Smallest part of the noise that gets a finding, in percent.
const LEAST_PERCENT: f64 = 1.0;

/// A finding: one sentence about a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Number at the start of the sentence, such as `71 %` or `412 µs`.
    pub(crate) figure: String,
    /// Rest of the sentence, which explains the number.
    pub(crate) text: String,
}

/// Returns the findings, the most important first.
pub(crate) fn findings(run: &ReportedRun) -> Vec<Finding> {
    let words = run.words();
    let takers = run.takers();
    let total_ns = sum(takers.iter().map(|taker| taker.total_ns));
    let mut out = Vec::new();
    if let Some(longest) = longest(run) {
        out.push(longest);
    }
    for group in grouped(&takers).into_iter().take(TAKERS) {
        let part = part_of(group.total_ns, total_ns);
        if part < LEAST_PERCENT {
            break;
        }
        let worst = group.max_ns.map_or_else(String::new, |max_ns| {
            format!(", {} at most", duration(max_ns))
        });
        out.push(Finding {
            figure: percent(part),
            text: format!(
                "of the {} is {}: {} in {}{worst}{}",
                words.noise,
                run.deed(group.share, group.who.as_deref()),
                duration(group.total_ns),
                times(group.moments, words.one, words.many),
                largest_lane(run, &group),
            ),
        });
    }
    if let Some(summary) = run.summary() {
        out.extend(periods(summary));
    }
    out.extend(longest_phase(run));
    out.extend(sides(run));
    out.extend(doubts(run));
    out
}

fn longest(run: &ReportedRun) -> Option<Finding> {
    let spikes = run.gathered.spikes.iter();
    let longest = spikes.max_by_key(|spike| (spike.dur_ns, Reverse(spike.start_mono_ns)))?;
    let mostly = longest.parts.first().map_or_else(String::new, |part| {
        let who = run.gathered.name(part);
        let part_percent = percent(part_of(part.ns, longest.dur_ns));
        format!("; {part_percent} of it is {}", run.deed(part.share, who))
    });
    Some(Finding {
        figure: duration(longest.dur_ns),
        text: format!(
            "is the {} {}, on {} at {}{mostly}",
            match run.is_of_tasks() {
                true => "latest",
                false => "longest",
            },
            run.words().one,
            run.lane_name(longest.lane),
            seconds(run.at_ns(longest.start_mono_ns)),
        ),
    })
}

/// Returns a clause that names the CPU or vCPU from which the group took the most time. Empty if
/// there is only one.
fn largest_lane(run: &ReportedRun, group: &Group) -> String {
    if run.lane_names.len() < 2 {
        return String::new();
    }
    let most = group
        .lanes_ns
        .iter()
        .max_by_key(|(lane, ns)| (**ns, Reverse(**lane)));
    most.map_or_else(String::new, |(lane, ns)| {
        let part = percent(part_of(*ns, group.total_ns));
        format!("; {part} of it on {}", run.lane_name(*lane))
    })
}

fn periods(summary: &Summary) -> impl Iterator<Item = Finding> + '_ {
    summary.periodic.iter().map(|found| Finding {
        figure: duration(found.mean_gap_ns),
        text: format!(
            "are lost on CPU {} every {} without a known cause: {} times, {} of this CPU’s residual",
            found.cpu,
            duration(found.period_ns),
            count(found.gaps),
            percent(found.share_of_residual * 100.0),
        ),
    })
}

/// Returns a finding about the phase that takes the most time of the wake-ups.
fn longest_phase(run: &ReportedRun) -> Option<Finding> {
    let all = phases::together(&phases::by_cpu(run))?;
    let known = all
        .phases
        .iter()
        .filter_map(|it| Some((it.phase?, it.total_ns?)));
    let (phase, ns) = known.max_by_key(|(_, ns)| *ns).filter(|it| it.1 > 0)?;
    let passes = match phase {
        Phase::ArmedLate => "after the expiry, until the timer is armed",
        Phase::Irq => "from the expiry to the timer’s interrupt",
        Phase::Handler => "in the timer’s handler",
        Phase::Wakeup => "from the wake-up to the switch",
        Phase::Return => "on the way back to user space",
    };
    Some(Finding {
        figure: percent(part_of(ns, all.total_ns())),
        text: format!("of the lateness passes {passes}: {}", duration(ns)),
    })
}

/// Returns a finding about how much of the latency the host caused, and how much the guest.
fn sides(run: &ReportedRun) -> Option<Finding> {
    let cpus = &run.latencies()?.cpus;
    let all = |side: fn(&ContextSides) -> u64| -> u64 {
        let contexts = cpus.iter().filter_map(|cpu| cpu.contexts.last());
        sum(contexts.map(side))
    };
    let [total_ns, host_ns, guest_ns, unknown_ns] = [
        all(|it| it.total_ns),
        all(|it| it.host_ns),
        all(|it| it.guest_ns),
        all(|it| it.unknown_ns),
    ];
    let of_all = |ns| percent(part_of(ns, total_ns));
    let unknown = match unknown_ns {
        0 => String::new(),
        ns => format!(", and {} is unknown", of_all(ns)),
    };
    (total_ns > 0).then(|| Finding {
        figure: of_all(host_ns),
        text: format!(
            "of the lateness belongs to the host: for {} the vCPU was outside its guest; {} passed while the guest \
             ran{unknown}",
            duration(host_ns),
            of_all(guest_ns)
        ),
    })
}

/// Returns findings about missing or uncertain data, which make the other findings less reliable.
fn doubts(run: &ReportedRun) -> Vec<Finding> {
    let mut out = Vec::new();
    let lost = match &run.outcome {
        RunOutcome::Exits(exits) => exits.lost_events,
        _ => run.summary().map_or(0, |summary| summary.lost_events),
    };
    if lost > 0 {
        out.push(Finding {
            figure: count(lost),
            text: match lost {
                1 => "event was lost: the named times are lower bounds".into(),
                _ => "events were lost: the named times are lower bounds".into(),
            },
        });
    }
    let stopped = run.summary().and_then(Summary::longest_not_measured);
    if let Some((ns, place)) = stopped {
        out.push(Finding {
            figure: duration(ns),
            text: format!(
                "of the run was not measured{place}: the run was stopped, or held by a debugger"
            ),
        });
    }
    let jumps = run.summary().map(|summary| summary.clock_jumps);
    if let Some(jumps) = jumps.filter(|jumps| jumps.count > 0) {
        out.push(Finding {
            figure: duration(jumps.undated_ns),
            text: format!(
                "of the run are left out, with {} gaps: a clock jumped there",
                jumps.undated_gaps
            ),
        });
    }
    if let Some(at_ns) = run
        .summary()
        .and_then(|summary| summary.tsc_went_back_at_ns)
    {
        out.push(Finding {
            figure: duration(at_ns),
            text: "after the start the TSC went back, or jumped too often: this page leaves out everything later"
                .into(),
        });
    }
    let unwitnessed = match &run.outcome {
        RunOutcome::Joined(joined) => match &joined.latencies {
            Some(it) => it.joined.wakeups.saturating_sub(it.joined.witnessed),
            None => joined.joined.gaps.saturating_sub(joined.joined.witnessed),
        },
        _ => 0,
    };
    if unwitnessed > 0 {
        out.push(Finding {
            figure: count(unwitnessed),
            text: format!(
                "{} are not in the host’s recording: the host did not record then, did not see the vCPU, or does not know its clock",
                run.words().many
            ),
        });
    }
    let (unsure, one, many) = match &run.outcome {
        RunOutcome::Joined(joined) => match &joined.latencies {
            Some(it) => (it.joined.unsure, "phase", "phases"),
            None => (joined.joined.unsure, "gap", "gaps"),
        },
        _ => Default::default(),
    };
    if unsure.ns > 0 {
        let many = if unsure.count == 1 { one } else { many };
        out.push(Finding {
            figure: count(unsure.count),
            text: format!(
                "{many} too short for the two clocks, and {} exits that overlap a longer one by too little: no \
                 culprit on the host is named for their {}",
                count(unsure.exits),
                duration(unsure.ns)
            ),
        });
    }
    let incomplete = run.summary().into_iter().flat_map(|summary| &summary.cpus);
    let incomplete: u64 = incomplete.filter_map(|cpu| cpu.incomplete_gaps).sum();
    if incomplete > 0 {
        out.push(Finding {
            figure: count(incomplete),
            text: "gaps contain an activity whose record was lost; their lengths are exact".into(),
        });
    }
    out
}
