//! Words for a verdict.

use std::time::Duration;

use vmnoise_console::units::rough;
use vmnoise_events::{MeasuringCommand, human};
use vmnoise_judge::check::{Blame, BudgetLimitResult, LimitVerdict, Reason};
use vmnoise_judge::compare::Unit;

use super::CheckResult;

/// Returns the name of a verdict, as all formats except JSON and LAVA show it.
pub const fn verdict(verdict: LimitVerdict) -> &'static str {
    match verdict {
        LimitVerdict::Pass => "PASS",
        LimitVerdict::Warn => "WARN",
        LimitVerdict::Fail => "FAIL",
        LimitVerdict::CannotTell => "CANNOT TELL",
    }
}

/// Formats a figure with its unit.
pub fn value(value: Option<f64>, unit: Unit) -> String {
    match (value, unit) {
        (None, _) => "-".into(),
        (Some(value), Unit::Percent) => format!("{value:.6} %"),
        (Some(value), Unit::PerSecond) => format!("{value:.1} /s"),
        (Some(value), Unit::Nanoseconds) => human(value.round() as u64),
    }
}

/// Formats the measured figure with its unit and the deciding CPU, if any: `8.071 ms on CPU 3`.
pub fn has(judgement: &BudgetLimitResult) -> String {
    let has = value(judgement.value, judgement.requirement.quantity.unit());
    match judgement.cpu {
        Some(cpu) => format!("{has} on CPU {cpu}"),
        None => has,
    }
}

/// Describes the checked recording: `osnoise on CPU 1,3 for 10.000 s: 1234 gaps of 1000 ns and
/// more`.
pub fn run(checked: &CheckResult<'_>) -> String {
    let evidence = checked.evidence;
    let facts = &evidence.facts;
    let cpus: Vec<String> = facts.options.cpus.iter().map(u32::to_string).collect();
    let values = match facts.workload {
        MeasuringCommand::Timerlat => "wake-ups".to_owned(),
        _ => format!("gaps of {} and more", human(facts.options.threshold_ns)),
    };
    format!(
        "{} on CPU {} for {}: {} {values}",
        facts.workload.command(),
        cpus.join(","),
        human(evidence.length_ns),
        evidence.count()
    )
}

/// Returns a line for each reason of the verdict on a limit, and a line with the culprits. Empty if
/// the verdict needs no explanation.
pub fn why(checked: &CheckResult<'_>, judgement: &BudgetLimitResult) -> Vec<String> {
    // The verdict FAIL already says that the figure is above its limit.
    let reasons = judgement.reasons.iter().filter(|it| **it != Reason::Above);
    let mut lines: Vec<String> = reasons.map(Reason::to_string).collect();
    if !judgement.blame.is_empty() {
        lines.push(blame(checked, judgement));
    }
    lines
}

fn blame(checked: &CheckResult<'_>, judgement: &BudgetLimitResult) -> String {
    let took: Vec<String> = judgement.blame.iter().map(took).collect();
    let took = took.join(", ");
    let worst = checked.evidence.worst(judgement.cpu);
    match worst.filter(|_| judgement.requirement.quantity.is_broken_by_the_longest()) {
        Some(worst) => format!(
            "the longest, {} on CPU {}, {} after the start: {took}",
            human(worst.dur_ns),
            worst.cpu,
            human(worst.at_ns)
        ),
        None => format!("the largest parts: {took}"),
    }
}

fn took(blame: &Blame) -> String {
    match &blame.name {
        Some(name) => format!("{} {name} {}", blame.share, human(blame.ns)),
        None => format!("{} {}", blame.share, human(blame.ns)),
    }
}

/// Returns how long to measure, if a longer run would help. The text promises a verdict only if no
/// limit has [`Reason::Unmet`]: a longer run may miss bursts, too.
pub fn ask_for(checked: &CheckResult<'_>) -> Option<String> {
    let judged = &checked.judged;
    let whole_seconds = judged.ask_for_ns?.div_ceil(1_000_000_000);
    let time = rough(Duration::from_secs(whole_seconds));
    let all = || judged.judgements.iter().flat_map(|it| &it.reasons);
    let is_few = |it: &Reason| matches!(it, Reason::TooFew { .. } | Reason::TooShort { .. });
    let is_unmet = |it: &Reason| matches!(it, Reason::Unmet { .. });
    Some(match all().any(is_few) && !all().any(is_unmet) {
        true => format!(
            "measure for {time} ({whole_seconds}s); twice that gives a verdict in 90 % of cases"
        ),
        false => format!("measure for {time} ({whole_seconds}s)"),
    })
}
