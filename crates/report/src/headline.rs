//! A run in one sentence.

use crate::figures::{duration, part_of, percent, sum};
use crate::gathering::Taker;
use crate::groups::grouped;
use crate::run::{Outcome, Run};
use crate::shares::deed;

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
    let worst_ns = run.longest_ns(lane).unwrap_or(worst_ns);
    let mut text = match (&run.outcome, noise_percent(run, lane)) {
        (_, _) if run.is_of_tasks() => {
            let of_lane = run
                .wakeups()
                .and_then(|it| it.cpus.get(lane_in_summary(run, lane)?)?.user);
            // Of fewer than a thousand it would be the worst again.
            let usual = of_lane.filter(|user| user.count > 1_000);
            let usual = usual.map_or_else(String::new, |user| {
                format!(" ({} for all but 1 in 1000)", duration(user.p999_ns))
            });
            format!(
                "On {name} {} wakes up {} late at worst{usual}",
                words.victim,
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
    let total_ns = sum(of_lane.iter().map(|taker| taker.total_ns));
    if let Some(group) = grouped(&of_lane).first() {
        text += &format!(
            "; {} of the {} is {}",
            percent(part_of(group.total_ns, total_ns)),
            words.noise,
            deed(group.share, group.who.as_deref())
        );
    }
    text += ".";
    if run.facts.witnesses.see_nothing() {
        text += " Nobody can be named without BPF: run as root.";
    }
    text
}

/// The lane that lost the largest part of its time; of wake-ups the one that was latest.
fn worst_lane(run: &Run) -> Option<usize> {
    let lanes = 0..run.gathered.lanes.len();
    lanes.max_by(|a, b| {
        let rank = |lane: usize| match run.is_of_tasks() {
            true => run.longest_ns(lane).unwrap_or(0) as f64,
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
            Some(part_of(time.noise_ns(), time.span_ns()))
        }
        _ => {
            run.summary()?
                .cpus
                .get(lane_in_summary(run, lane)?)?
                .noise_percent
        }
    }
}
