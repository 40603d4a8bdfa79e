//! The headline of a run: the lost time, and the largest cause.

use std::fmt;

use crate::figures::{duration, part_of, percent, sum};
use crate::gathering::Taker;
use crate::groups::grouped;
use crate::run::{ReportedRun, RunOutcome};

/// Result of a run in a few words, without a full stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headline {
    /// Lost time of the CPU or vCPU that lost the most.
    pub lost: String,
    /// Largest cause of the lost time; `None` if nothing was lost.
    pub taker: Option<String>,
}

impl fmt::Display for Headline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.taker {
            Some(taker) => write!(f, "{}; {taker}.", self.lost),
            None => write!(f, "{}.", self.lost),
        }
    }
}

impl Headline {
    /// Returns the headline of a run, which begins the run's section on the page.
    pub fn of(run: &ReportedRun) -> Headline {
        match worst_lane(run) {
            Some(lane) => Headline {
                lost: lost(run, lane),
                taker: taker(run, lane),
            },
            None => Headline {
                lost: nothing_lost(run),
                taker: None,
            },
        }
    }
}

fn nothing_lost(run: &ReportedRun) -> String {
    let one = run.words().one;
    let long = duration(run.lasted_ns());
    match run.facts.options.threshold_ns {
        0 => format!("No {one} was recorded in {long}"),
        least_ns => format!("No {one} of {} or more in {long}", duration(least_ns)),
    }
}

fn lost(run: &ReportedRun, lane: usize) -> String {
    let words = run.words();
    let name = run.lane_name(lane);
    let worst_ns = run.gathered.lengths[lane].max();
    let worst_ns = run.longest_ns(lane).unwrap_or(worst_ns);
    match (&run.outcome, noise_percent(run, lane)) {
        (_, _) if run.is_of_tasks() => {
            let of_lane = run
                .wakeups()
                .and_then(|it| it.cpus.get(lane_in_summary(run, lane)?)?.user);
            // Of 1000 or fewer wake-ups, this percentile would be the maximum again.
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
        (RunOutcome::Exits(_), Some(lost)) => format!(
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
    }
}

fn taker(run: &ReportedRun, lane: usize) -> Option<String> {
    let of_lane: Vec<Taker> = run
        .takers()
        .into_iter()
        .filter(|it| it.lane == lane)
        .collect();
    let total_ns = sum(of_lane.iter().map(|taker| taker.total_ns));
    let groups = grouped(&of_lane);
    let group = groups.first()?;
    Some(format!(
        "{} of the {} is {}",
        percent(part_of(group.total_ns, total_ns)),
        run.words().noise,
        run.deed(group.share, group.who.as_deref())
    ))
}

/// Returns the index of the CPU or vCPU that lost the largest part of its time. For wake-ups, the
/// largest latency decides. `None` if nothing was recorded.
fn worst_lane(run: &ReportedRun) -> Option<usize> {
    let lanes = 0..run.gathered.lanes.len();
    lanes.max_by(|a, b| {
        let rank = |lane: usize| match run.is_of_tasks() {
            true => run.longest_ns(lane).unwrap_or(0) as f64,
            _ => noise_percent(run, lane).unwrap_or(0.0),
        };
        rank(*a).total_cmp(&rank(*b)).then(b.cmp(a))
    })
}

/// Returns the index of a CPU in the summary; `None` if the summary lacks the CPU. `lane` is the
/// CPU's index on the page.
fn lane_in_summary(run: &ReportedRun, lane: usize) -> Option<usize> {
    let number = *run.gathered.lanes.get(lane)?;
    let summary = run.summary()?;
    match &summary.wakeups {
        Some(wakeups) => wakeups.cpus.iter().position(|cpu| cpu.cpu == number),
        None => summary.cpus.iter().position(|cpu| cpu.cpu == number),
    }
}

/// Returns the part of its time that a CPU or vCPU lost, in percent; `None` if unknown.
fn noise_percent(run: &ReportedRun, lane: usize) -> Option<f64> {
    match &run.outcome {
        RunOutcome::Exits(exits) => {
            let id = *run.gathered.lanes.get(lane)?;
            let mut vcpus = exits.exits.vms.iter().flat_map(|vm| &vm.vcpus);
            let time = vcpus.find(|vcpu| vcpu.id.0 == id)?.time_ns;
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
