//! What a run says in plain words: one headline, then who took the time, the most first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use vmnoise_events::Share;
use vmnoise_explain::{PhaseTotals, Summary};

use crate::figures::{count, duration, part_of, percent, seconds, times};
use crate::gathering::Taker;
use crate::run::{Outcome, Run};
use crate::shares::{deed, program};

/// Takers that are told as findings.
const TAKERS: usize = 5;
/// Parts below this many percent are no finding.
const LEAST_PERCENT: f64 = 1.0;

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// `71 %`, `412 µs`, ….
    pub(crate) figure: String,
    /// What that is the figure of.
    pub(crate) text: String,
}

/// One sentence.
pub(crate) fn headline(run: &Run) -> String {
    let words = run.words();
    let Some(lane) = worst_lane(run) else {
        let (from_ns, until_ns) = run.gathered.span_mono_ns;
        let long = duration(until_ns.saturating_sub(from_ns));
        return match run.facts.options.threshold_ns {
            0 => format!("No {} was recorded in {long}.", words.one),
            least_ns => format!(
                "No {} of {} or more in {long}.",
                words.one,
                duration(least_ns)
            ),
        };
    };
    let name = run.lane_name(lane);
    let worst_ns = run.gathered.lengths[lane].max();
    let worst_ns = exact_max_ns(run, lane).unwrap_or(worst_ns);
    let mut text = match (&run.outcome, noise_percent(run, lane)) {
        (Outcome::Wakeups(_), _) => {
            let of_lane =
                wakeups(run).and_then(|it| it.cpus.get(lane_in_summary(run, lane)?)?.user);
            let usual = of_lane.map_or_else(String::new, |user| {
                format!(" ({} for all but 1 in 1000)", duration(user.p999_ns))
            });
            format!(
                "On {name} a task wakes up {} late at worst{usual}",
                duration(worst_ns)
            )
        }
        (Outcome::Exits(_), Some(lost)) => format!(
            "{name} spends {} of its time in exits; the worst takes {}",
            percent(lost),
            duration(worst_ns)
        ),
        (_, Some(lost)) => format!(
            "On {name} {} loses {} of its time; worst {}",
            words.victim,
            percent(lost),
            duration(worst_ns)
        ),
        (_, None) => format!(
            "On {name} {} loses up to {} at once",
            words.victim,
            duration(worst_ns)
        ),
    };
    let of_lane: Vec<Taker> = run
        .takers()
        .into_iter()
        .filter(|it| it.lane == lane)
        .collect();
    let total_ns: u64 = of_lane.iter().map(|taker| taker.total_ns).sum();
    if let Some(group) = grouped(&of_lane).first() {
        let what = match run.outcome {
            Outcome::Wakeups(_) => "all lateness",
            _ => "it",
        };
        text += &format!(
            "; {} of {what} is {}",
            percent(part_of(group.total_ns, total_ns)),
            deed(group.share, group.who.as_deref())
        );
    }
    text + "."
}

/// The most important first.
pub(crate) fn findings(run: &Run) -> Vec<Finding> {
    let words = run.words();
    let takers = run.takers();
    let total_ns: u64 = takers.iter().map(|taker| taker.total_ns).sum();
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
                deed(group.share, group.who.as_deref()),
                duration(group.total_ns),
                times(group.moments, words.one, words.many),
                where_it_was(run, &group),
            ),
        });
    }
    if let Some(summary) = run.summary() {
        out.extend(periods(summary));
    }
    out.extend(phases(run));
    out.extend(doubts(run));
    out
}

fn longest(run: &Run) -> Option<Finding> {
    let spikes = run.gathered.spikes.iter();
    let longest = spikes.max_by_key(|spike| (spike.dur_ns, Reverse(spike.start_mono_ns)))?;
    let mostly = longest.parts.first().map_or_else(String::new, |part| {
        let who = run.gathered.name(part);
        let part_percent = percent(part_of(part.ns, longest.dur_ns));
        format!("; {part_percent} of it is {}", deed(part.share, who))
    });
    Some(Finding {
        figure: duration(longest.dur_ns),
        text: format!(
            "is the {} {}, on {} at {}{mostly}",
            match run.outcome {
                Outcome::Wakeups(_) => "latest",
                _ => "longest",
            },
            run.words().one,
            run.lane_name(longest.lane),
            seconds(run.at_ns(longest.start_mono_ns)),
        ),
    })
}

/// One program, or one kind of work, on all lanes.
struct Group {
    share: Share,
    who: Option<String>,
    moments: u64,
    total_ns: u64,
    max_ns: Option<u64>,
    /// Of each lane.
    lanes_ns: BTreeMap<usize, u64>,
}

/// The most expensive first.
fn grouped(takers: &[Taker]) -> Vec<Group> {
    let mut groups: BTreeMap<(Share, Option<&str>), Group> = BTreeMap::new();
    for taker in takers {
        let who = taker.name.as_deref().map(program);
        let group = groups.entry((taker.share, who)).or_insert_with(|| Group {
            share: taker.share,
            who: who.map(str::to_owned),
            moments: 0,
            total_ns: 0,
            max_ns: None,
            lanes_ns: BTreeMap::new(),
        });
        group.moments += taker.moments;
        group.total_ns += taker.total_ns;
        group.max_ns = group.max_ns.max(taker.max_ns);
        *group.lanes_ns.entry(taker.lane).or_default() += taker.total_ns;
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by_key(|group| Reverse(group.total_ns));
    groups
}

/// Names the lane that had most of it where there are several.
fn where_it_was(run: &Run, group: &Group) -> String {
    if run.lane_names.len() < 2 {
        return String::new();
    }
    let most = group
        .lanes_ns
        .iter()
        .max_by_key(|(lane, ns)| (**ns, Reverse(**lane)));
    most.map_or_else(String::new, |(lane, ns)| {
        let part = percent(part_of(*ns, group.total_ns));
        format!("; {part} of that on {}", run.lane_name(*lane))
    })
}

fn periods(summary: &Summary) -> impl Iterator<Item = Finding> + '_ {
    summary.periodic.iter().map(|found| Finding {
        figure: duration(found.mean_gap_ns),
        text: format!(
            "are lost on CPU {} every {}, to no witness: {} times, {} of what is left over there",
            found.cpu,
            duration(found.period_ns),
            count(found.gaps),
            percent(found.share_of_residual * 100.0),
        ),
    })
}

/// The longest phase of wake-ups.
fn phases(run: &Run) -> Option<Finding> {
    let cpus = &wakeups(run)?.cpus;
    let parts = |phases: &PhaseTotals| {
        [
            ("armed after its expiry", phases.armed_late),
            ("from the expiry to the timer’s interrupt", phases.irq),
            ("in the timer’s handler", phases.handler),
            ("from the wake-up to the switch", phases.wakeup),
            ("on the way back to user space", phases.return_),
        ]
    };
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (phase, ns) in cpus.iter().flat_map(|cpu| parts(&cpu.phases_ns)) {
        *sums.entry(phase).or_default() += ns.unwrap_or(0);
    }
    let total_ns: u64 = sums.values().sum();
    let (phase, ns) = sums
        .into_iter()
        .max_by_key(|(_, ns)| *ns)
        .filter(|it| it.1 > 0)?;
    Some(Finding {
        figure: percent(part_of(ns, total_ns)),
        text: format!("of the lateness passes {phase}: {}", duration(ns)),
    })
}

/// What takes from the weight of the rest.
fn doubts(run: &Run) -> Vec<Finding> {
    let mut out = Vec::new();
    let lost = match &run.outcome {
        Outcome::Exits(exits) => exits.lost_events,
        _ => run.summary().map_or(0, |summary| summary.lost_events),
    };
    if lost > 0 {
        out.push(Finding {
            figure: count(lost),
            text: "events were lost: who is named had at least that much".into(),
        });
    }
    let incomplete = run.summary().into_iter().flat_map(|summary| &summary.cpus);
    let incomplete: u64 = incomplete.filter_map(|cpu| cpu.incomplete_gaps).sum();
    if incomplete > 0 {
        out.push(Finding {
            figure: count(incomplete),
            text: "gaps hold something whose record was lost; their length is exact".into(),
        });
    }
    out
}

fn wakeups(run: &Run) -> Option<&vmnoise_explain::Wakeups> {
    run.summary()?.wakeups.as_ref()
}

/// The lane that lost the largest part of its time; of wake-ups the one that was latest.
fn worst_lane(run: &Run) -> Option<usize> {
    let lanes = 0..run.gathered.lanes.len();
    lanes.max_by(|a, b| {
        let rank = |lane: usize| match run.outcome {
            Outcome::Wakeups(_) => exact_max_ns(run, lane).unwrap_or(0) as f64,
            _ => noise_percent(run, lane).unwrap_or(0.0),
        };
        rank(*a).total_cmp(&rank(*b)).then(b.cmp(a))
    })
}

/// The place of a lane's CPU in the summary.
fn lane_in_summary(run: &Run, lane: usize) -> Option<usize> {
    let number = *run.gathered.lanes.get(lane)?;
    let summary = run.summary()?;
    match &summary.wakeups {
        Some(wakeups) => wakeups.cpus.iter().position(|cpu| cpu.cpu == number),
        None => summary.cpus.iter().position(|cpu| cpu.cpu == number),
    }
}

/// The part of its time that a lane lost, in percent; `None` where that is unknown.
fn noise_percent(run: &Run, lane: usize) -> Option<f64> {
    match &run.outcome {
        Outcome::Exits(exits) => {
            let tid = *run.gathered.lanes.get(lane)?;
            let mut vcpus = exits.exits.vms.iter().flat_map(|vm| &vm.vcpus);
            let time = vcpus.find(|vcpu| vcpu.tid == tid)?.time_ns;
            let taken_ns = crate::tables::noise_of(&time.taken);
            let all_ns = taken_ns + time.taken.halted + time.guest;
            Some(part_of(taken_ns, all_ns))
        }
        _ => {
            run.summary()?
                .cpus
                .get(lane_in_summary(run, lane)?)?
                .noise_percent
        }
    }
}

/// The longest moment of a lane, to the nanosecond.
fn exact_max_ns(run: &Run, lane: usize) -> Option<u64> {
    let spikes = run
        .gathered
        .spikes
        .iter()
        .filter(|spike| spike.lane == lane);
    spikes.map(|spike| spike.dur_ns).max()
}
