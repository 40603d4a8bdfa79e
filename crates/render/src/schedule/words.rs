//! Words for verdicts on tasks.

use vmnoise_events::coverage::{BlindSpot, Coverage};
use vmnoise_events::{MeasuringCommand, Policy, human};
use vmnoise_predict::schedule::{
    BreakdownGap, DeadlineVerdict, ManyJobs, ScheduleOrder, TaskVerdict, WINDOWS,
};
use vmnoise_predict::tail::{LARGEST, Tail};

use super::CpuSupply;

pub(super) fn policy(policy: ScheduleOrder) -> &'static str {
    match policy {
        ScheduleOrder::FixedPriority => "fixed priorities",
        ScheduleOrder::Edf => "earliest deadline first",
        ScheduleOrder::Fifo => "first come, first served",
    }
}

pub(super) fn verdict(verdict: DeadlineVerdict) -> &'static str {
    match verdict {
        DeadlineVerdict::Holds => "holds",
        DeadlineVerdict::MayMiss | DeadlineVerdict::Overloads { .. } => "MAY MISS",
        DeadlineVerdict::Blind | DeadlineVerdict::TooShort { .. } | DeadlineVerdict::TooMany(_) => {
            "CANNOT TELL"
        }
    }
}

/// Returns the reasons for a verdict, one sentence each; empty if the figures already show the
/// reason.
pub(super) fn why(cpu: &CpuSupply<'_>, judged: &TaskVerdict) -> Vec<String> {
    let mut why = causes(cpu, judged);
    let may_miss = matches!(
        judged.verdict,
        DeadlineVerdict::MayMiss | DeadlineVerdict::Overloads { .. }
    );
    if may_miss && cpu.of_gaps.iter().any(had_an_ordinary_recorder) {
        why.push(UPPER_BOUND.into());
    }
    why
}

/// Limitation of a miss that an ordinary thread recorded. All policies of task sets are real-time.
const UPPER_BOUND: &str = "the recorder, an ordinary thread, also waited for tasks of lower priority: the time taken is an \
     upper bound; record with -P just below the task's priority, or use --without";

/// Returns whether a polling thread of ordinary priority recorded. The priority of an observed
/// thread is unknown.
fn had_an_ordinary_recorder(coverage: &Coverage) -> bool {
    coverage.workload != MeasuringCommand::Observed
        && matches!(coverage.policy, Some(Policy::Other(_)))
}

fn causes(cpu: &CpuSupply<'_>, judged: &TaskVerdict) -> Vec<String> {
    let sentence = match judged.verdict {
        DeadlineVerdict::Blind => return judged.blind_spots.iter().map(BlindSpot::to_string).collect(),
        DeadlineVerdict::Holds | DeadlineVerdict::MayMiss => return Vec::new(),
        DeadlineVerdict::Overloads { needs, left } => format!(
            "this task and those that go before it need {:.3} % of the CPU, but only {:.3} % was left",
            100.0 * needs,
            100.0 * left
        ),
        DeadlineVerdict::TooShort {
            needs_ns: Some(needs_ns),
        } => format!(
            "the recordings are as long as {} of its windows (its busy window, or its period), but {WINDOWS} are required: record \
             for {} or longer",
            judged.windows.unwrap_or(0),
            human(needs_ns)
        ),
        DeadlineVerdict::TooShort { needs_ns: None } => format!(
            "in {} it is not certain that the tasks ever ran out of work: record for longer",
            human(cpu.supply.longest_run_ns())
        ),
        DeadlineVerdict::TooMany(ManyJobs::InBusyWindow) => {
            "more than 100,000 jobs come in its busy window, so there is no bound: use longer periods, or fewer tasks"
                .into()
        }
        DeadlineVerdict::TooMany(ManyJobs::BeforeLatestDeadline) => {
            "more than 100,000 jobs come before the latest deadline, so there is no bound: use longer periods, or shorter deadlines"
                .into()
        }
    };
    vec![sentence]
}

/// Returns a sentence for a task that holds: more frequent misses would almost certainly appear in
/// the recordings.
pub(super) fn excluded(judged: &TaskVerdict) -> Option<String> {
    let every_ns = judged.excluded_every_ns?;
    Some(format!(
        "misses more often than once in {} would have been seen (99 %)",
        human(every_ns)
    ))
}

/// Formats the length of the shortest additional gap that may make a task miss its deadline.
pub(super) fn gap(gap: Option<BreakdownGap>) -> String {
    gap.map_or_else(
        || "-".into(),
        |it| match it.is_at_least {
            true => format!("> {}", human(it.ns)),
            false => human(it.ns),
        },
    )
}

/// Formats the most time taken in a window of this length, in ever longer parts of the run.
pub(super) fn growth(cpu: &CpuSupply<'_>, length_ns: u64) -> String {
    let parts = ["first eighth", "first quarter", "first half", "whole"];
    let grown = parts.iter().zip(cpu.supply.growth_ns(length_ns));
    let grown = grown.filter_map(|(part, ns)| Some(format!("{} in the {part}", human(ns?))));
    grown.collect::<Vec<_>>().join(", ")
}

const DAY_NS: f64 = 86_400e9;

/// Formats the time that the worst window of a day would lose. This is an extrapolation with a
/// fitted tail, not a measurement.
pub(super) fn day(cpu: &CpuSupply<'_>, length_ns: u64) -> String {
    let (windows, largest_ns) = cpu.supply.largest_in_turn_ns(length_ns, LARGEST);
    let length = human(length_ns);
    let Some(tail) = Tail::fit_largest(windows, &largest_ns) else {
        return format!("too few windows of {length} differ to fit a tail to them");
    };
    let p = tail.p_value();
    if !tail.fits() {
        return format!(
            "no tail fits the largest of {} windows of {length} (p = {p:.2}): nothing is extrapolated",
            tail.values
        );
    }
    let windows = DAY_NS / length_ns as f64;
    let Some(day_ns) = tail.expected_max_ns(windows) else {
        return match windows <= tail.values as f64 {
            true => "a day and more was recorded: nothing is extrapolated".into(),
            false => format!(
                "the tail of the largest windows has a shape of {:.2}: from 0.5 on nothing is extrapolated",
                tail.shape
            ),
        };
    };
    // The tail is fitted to consecutive windows. `worst` also covers windows that overlap them, and
    // may find a worse one.
    let seen_ns = cpu
        .supply
        .worst(length_ns)
        .map_or(0, |it| it.window.taken_ns);
    let day_ns = (day_ns as u64).min(length_ns);
    let most = match day_ns > seen_ns {
        true => human(day_ns),
        false => "no more than was seen".into(),
    };
    format!(
        "extrapolated, by a tail fitted to the largest {} of {} windows (p = {p:.2}): the worst window of a day would lose {most}",
        tail.peaks, tail.values
    )
}

/// Limitation of every measured bound.
pub(super) const NO_WORST_CASE: &str = "this is no worst case: a longer gap, or more gaps at once, may be possible although none \
     was recorded";
