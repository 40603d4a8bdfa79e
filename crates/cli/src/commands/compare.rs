//! `vmnoise compare`: recordings side by side, and conditions on them.

use std::path::Path;

use anyhow::Result;
use vmnoise_events::RunFacts;
use vmnoise_explain::compare::{Kind, Measured, Measuring, Span, WINDOWS, compare};

use super::replay::Recording;
use crate::args::CompareArguments;
use crate::args::condition::{Bound, Condition};
use crate::output::compare::{Checked, Compared, Comparison, Run, print};
use crate::progress;
use crate::say;
use crate::status::{Status, UsageError};

/// Compares, prints, and says whether a condition holds.
pub fn run(arguments: &CompareArguments) -> Result<Status> {
    for path in &arguments.recordings {
        progress::expect(path, 2);
    }
    let mut looks = Vec::new();
    for path in &arguments.recordings {
        looks.push((path.as_path(), look(path)?));
    }
    let kind = kind_of_all(&looks)?;
    let bounds = bounds(&arguments.fail_if, kind)?;
    let thresholds = looks
        .iter()
        .map(|(_, (facts, _))| facts.options.threshold_ns);
    let threshold_ns = match kind {
        Kind::Gaps => thresholds.max().unwrap_or(0),
        Kind::Wakeups | Kind::Exits => 0,
    };
    let shortest_ns = looks.iter().map(|(_, (_, span))| span.ns()).min();
    let window_ns = (shortest_ns.unwrap_or(0) / WINDOWS).max(kind.shortest_window_ns());
    let mut runs = Vec::new();
    for (path, (facts, _)) in looks {
        let measured = measure(path, &facts, threshold_ns, window_ns)?;
        runs.push(Run {
            file: say::name_of(path),
            facts,
            measured,
        });
    }
    report_same(&runs);
    let comparisons = (1..).zip(&runs[1..]).map(|(second, run)| Comparison {
        second,
        rows: compare(&runs[0].measured, &run.measured),
    });
    let compared = Compared {
        kind,
        threshold_ns,
        window_ns,
        comparisons: comparisons.collect(),
        checks: checks(&bounds, &runs),
        runs,
    };
    print(arguments.format, &compared)?;
    // What is not known cannot pass.
    let failed = compared
        .checks
        .iter()
        .any(|check| check.holds != Some(false));
    Ok(if failed { Status::Limit } else { Status::Ok })
}

/// What all recordings hold.
fn kind_of_all(looks: &[(&Path, (RunFacts, Span))]) -> Result<Kind> {
    let Some(((first, (facts, _)), others)) = looks.split_first() else {
        return Err(UsageError("name a recording".into()).into());
    };
    let kind = Kind::of(facts.workload);
    let other = others
        .iter()
        .find(|(_, (facts, _))| Kind::of(facts.workload) != kind);
    match other {
        None => Ok(kind),
        Some((other, (others, _))) => Err(UsageError(format!(
            "{} is of `vmnoise {}` and {} of `vmnoise {}`, which measure different things: compare \
             recordings of one command",
            say::name_of(first),
            facts.workload.command(),
            say::name_of(other),
            others.workload.command(),
        ))
        .into()),
    }
}

/// What the conditions mean for these recordings.
fn bounds(conditions: &[Condition], kind: Kind) -> Result<Vec<(&Condition, Bound)>> {
    let bounds = conditions.iter().map(|condition| {
        let bound = condition.on(kind);
        let bound = bound.map_err(|wrong| UsageError(format!("--fail-if {condition}: {wrong}")))?;
        Ok((condition, bound))
    });
    bounds.collect()
}

/// The conditions on every run but the first, or on the first if it is the only one.
fn checks(bounds: &[(&Condition, Bound)], runs: &[Run]) -> Vec<Checked> {
    let judged = if runs.len() > 1 { 1..runs.len() } else { 0..1 };
    let checks = bounds
        .iter()
        .flat_map(|bound| judged.clone().map(move |run| (bound, run)));
    let checks = checks.map(|((condition, bound), run)| {
        let value = runs[run].measured.figure(&bound.figure);
        Checked {
            condition: condition.to_string(),
            run,
            value,
            unit: bound.figure.unit(),
            holds: value.map(|value| bound.holds(value)),
        }
    });
    checks.collect()
}

/// Says which recordings are of one run: a name that was mistyped, most likely.
fn report_same(runs: &[Run]) {
    for (nth, run) in runs.iter().enumerate() {
        let its = |other: &&Run| {
            let (its, own) = (&other.facts, &run.facts);
            its.started_at == own.started_at && its.host.name == own.host.name
        };
        if let Some(same) = runs[..nth].iter().find(its) {
            say::say(format_args!(
                "{} and {} are of the same run",
                same.file, run.file
            ));
        }
    }
}

/// What a recording is of, and how long.
fn look(path: &Path) -> Result<(RunFacts, Span)> {
    let mut recording = Recording::open(path)?;
    Ok((recording.facts.clone(), recording.span()))
}

fn measure(path: &Path, facts: &RunFacts, threshold_ns: u64, window_ns: u64) -> Result<Measured> {
    let mut recording = Recording::open(path)?;
    let mut measuring = Measuring::new(facts, threshold_ns, window_ns);
    recording.each(|event| {
        measuring.push(event);
        Ok(())
    })?;
    recording.report_ending()?;
    Ok(measuring.finish())
}
