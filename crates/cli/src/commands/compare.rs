//! `vmnoise compare`: compares recordings, and tests conditions on them.

use std::path::Path;

use anyhow::Result;
use vmnoise_console::say;
use vmnoise_console::status::{ExitStatus, UsageError};
use vmnoise_console::units::seconds;
use vmnoise_events::RunFacts;
use vmnoise_judge::compare::{
    MOST_RUNS, Measuring, RecordingKind, RunFigures, StreamSpan, WINDOWS, compare, compare_groups,
};
use vmnoise_render::compare::{
    CheckedCondition, ComparedRun, Comparison, ComparisonResult, TwoGroups, print,
};

use super::replay::ReplayedRecording;
use crate::args::CompareArguments;
use crate::args::condition::{Bound, FigureCondition};
use crate::progress;

/// Compares the recordings and prints the result. The status says whether a condition holds or is
/// undecided.
pub fn run(arguments: &CompareArguments) -> Result<ExitStatus> {
    let paths = [
        &arguments.recordings[..],
        &arguments.before,
        &arguments.after,
    ]
    .concat();
    refuse_large(arguments)?;
    for path in &paths {
        progress::expect(path, 2);
    }
    let mut looks = Vec::new();
    for path in &paths {
        looks.push((path.as_path(), look(path)?));
    }
    let kind = kind_of_all(&looks)?;
    let bounds = bounds(&arguments.fail_if, kind)?;
    let thresholds = looks
        .iter()
        .map(|(_, (facts, _))| facts.options.threshold_ns);
    let threshold_ns = match kind {
        RecordingKind::Gaps => thresholds.max().unwrap_or(0),
        RecordingKind::Wakeups | RecordingKind::Exits => 0,
    };
    let shortest_ns = looks.iter().map(|(_, (_, span))| span.ns()).min();
    let window_ns = (shortest_ns.unwrap_or(0) / WINDOWS).max(kind.shortest_window_ns());
    let mut runs = Vec::new();
    for (path, (facts, _)) in looks {
        let measured = measure(path, &facts, threshold_ns, window_ns)?;
        runs.push(ComparedRun {
            file: say::name_of(path),
            facts,
            measured,
        });
    }
    report_same(&runs);
    report_unlike(&runs);
    let before = arguments.before.len();
    let groups = (before > 0).then(|| two_groups(&runs, before));
    // Conditions apply to every run except the first, or to the only run. With groups, they apply
    // to every run of --after.
    let judged = match (before, runs.len()) {
        (0, 1) => 0,
        (0, _) => 1,
        (before, _) => before,
    };
    let compared = ComparisonResult {
        kind,
        threshold_ns,
        window_ns,
        comparisons: match groups {
            None => comparisons(&runs),
            Some(_) => Vec::new(),
        },
        groups,
        checks: checks(&bounds, &runs, judged),
        runs,
    };
    print(arguments.format, &compared)?;
    // A condition with an unknown answer counts as failed.
    let failed = compared
        .checks
        .iter()
        .any(|check| check.answer.holds != Some(false));
    Ok(if failed {
        ExitStatus::Limit
    } else {
        ExitStatus::Ok
    })
}

/// Refuses groups that are too large for the exact test.
fn refuse_large(arguments: &CompareArguments) -> Result<()> {
    let largest = arguments.before.len().max(arguments.after.len());
    match largest > MOST_RUNS {
        true => Err(UsageError(format!(
            "a group of {largest} recordings is too large for an exact test: name {MOST_RUNS} at most"
        ))
        .into()),
        false => Ok(()),
    }
}

/// Compares the first run with each of the others.
fn comparisons(runs: &[ComparedRun]) -> Vec<Comparison> {
    let others = (1..).zip(runs.iter().skip(1));
    let compared = others.map(|(second, run)| Comparison {
        second,
        rows: compare(&runs[0].measured, &run.measured),
    });
    compared.collect()
}

/// Compares the first `before` runs with the rest.
fn two_groups(runs: &[ComparedRun], before: usize) -> TwoGroups {
    let measured: Vec<&RunFigures> = runs.iter().map(|run| &run.measured).collect();
    // Start times are in RFC 3339 and UTC, so they sort as text.
    let starts = runs.iter().map(|run| run.facts.started_at.as_str());
    let starts: Vec<&str> = starts.collect();
    TwoGroups {
        before,
        after: runs.len() - before,
        is_one_after_the_other: starts[..before].iter().max() < starts[before..].iter().min(),
        groups: compare_groups(&measured[..before], &measured[before..]),
    }
}

/// Returns the kind of all recordings. Refuses recordings of different kinds.
fn kind_of_all(looks: &[(&Path, (RunFacts, StreamSpan))]) -> Result<RecordingKind> {
    let Some(((first, (facts, _)), others)) = looks.split_first() else {
        return Err(UsageError("name a recording".into()).into());
    };
    let kind = RecordingKind::of(facts.workload);
    let other = others
        .iter()
        .find(|(_, (facts, _))| RecordingKind::of(facts.workload) != kind);
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

/// Returns the conditions for recordings of this kind.
fn bounds(
    conditions: &[FigureCondition],
    kind: RecordingKind,
) -> Result<Vec<(&FigureCondition, Bound)>> {
    let bounds = conditions.iter().map(|condition| {
        let bound = condition.on(kind);
        let bound = bound.map_err(|wrong| UsageError(format!("--fail-if {condition}: {wrong}")))?;
        Ok((condition, bound))
    });
    bounds.collect()
}

/// Tests the conditions on every run from `first` on.
fn checks(
    bounds: &[(&FigureCondition, Bound)],
    runs: &[ComparedRun],
    first: usize,
) -> Vec<CheckedCondition> {
    let checks = bounds
        .iter()
        .flat_map(|bound| (first..runs.len()).map(move |run| (bound, run)));
    let checks = checks.map(|((condition, bound), run)| {
        let measured = &runs[run].measured;
        CheckedCondition {
            condition: condition.to_string(),
            run,
            unit: bound.figure.unit(),
            answer: measured.answer(&bound.figure, bound.limit, &|value| bound.holds(value)),
        }
    });
    checks.collect()
}

/// Reports recordings of the same run, because the user may have mistyped a name.
fn report_same(runs: &[ComparedRun]) {
    for (nth, run) in runs.iter().enumerate() {
        let its = |other: &&ComparedRun| {
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

/// Reports runs of different length, because a longer run has a larger maximum by its length alone.
fn report_unlike(runs: &[ComparedRun]) {
    let lengths_ns = runs.iter().map(|run| run.measured.runtime_ns);
    let shortest_ns = lengths_ns.clone().min().unwrap_or(0);
    let longest_ns = lengths_ns.max().unwrap_or(0);
    if longest_ns / 5 > shortest_ns / 4 {
        say::say(format_args!(
            "the longest run measured {}, the shortest {}: a longer run sees rarer events, so its maxima and high \
             percentiles are larger for this reason alone; compare runs of equal length",
            seconds(longest_ns),
            seconds(shortest_ns)
        ));
    }
}

/// Reads the facts of a recording and the time that it measured.
fn look(path: &Path) -> Result<(RunFacts, StreamSpan)> {
    let mut recording = ReplayedRecording::open(path)?;
    Ok((recording.facts.clone(), recording.span()))
}

fn measure(path: &Path, facts: &RunFacts, threshold_ns: u64, window_ns: u64) -> Result<RunFigures> {
    let mut recording = ReplayedRecording::open(path)?;
    let mut measuring = Measuring::new(facts, threshold_ns, window_ns);
    recording.each(|event| {
        measuring.push(event);
        Ok(())
    })?;
    recording.report_ending()?;
    Ok(measuring.finish())
}
