//! `vmnoise compare`: recordings side by side, and conditions on them.

use std::path::Path;

use anyhow::Result;
use vmnoise_events::{RunFacts, Workload};
use vmnoise_explain::compare::{Sample, Sampler, Span, WINDOWS, compare};

use super::replay::Recording;
use crate::args::CompareArguments;
use crate::output::compare::{Checked, Comparison, Run, print};
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
        looks.push(look(path)?);
    }
    let thresholds = looks.iter().map(|(facts, _)| facts.options.threshold_ns);
    let threshold_ns = thresholds.max().unwrap_or(0);
    let shortest_ns = looks.iter().map(|(_, span)| span.ns()).min().unwrap_or(0);
    let window_ns = (shortest_ns / WINDOWS).max(1);
    let mut runs = Vec::new();
    for (path, (facts, _)) in arguments.recordings.iter().zip(looks) {
        let sample = sample(path, &facts, threshold_ns, window_ns)?;
        runs.push(Run {
            file: say::name_of(path),
            facts,
            sample,
        });
    }
    report_same(&runs);
    let [first, others @ ..] = &runs[..] else {
        return Err(UsageError("name a recording".into()).into());
    };
    let comparisons: Vec<Comparison> = (1..)
        .zip(others)
        .map(|(second, run)| Comparison {
            second,
            rows: compare(&first.sample, &run.sample),
        })
        .collect();
    let judged = if others.is_empty() {
        0..1
    } else {
        1..runs.len()
    };
    let conditions = &arguments.fail_if;
    let checks = conditions
        .iter()
        .flat_map(|condition| judged.clone().map(move |run| (condition, run)));
    let checks: Vec<Checked> = checks
        .map(|(condition, run)| Checked {
            condition: condition.to_string(),
            run,
            value: condition.figure().of(&runs[run].sample.whole),
            unit: condition.figure().unit(),
            holds: condition.holds(&runs[run].sample.whole),
        })
        .collect();
    print(
        arguments.format,
        threshold_ns,
        window_ns,
        &runs,
        &comparisons,
        &checks,
    )?;
    // What is not known cannot pass.
    let failed = checks.iter().any(|check| check.holds != Some(false));
    Ok(if failed { Status::Limit } else { Status::Ok })
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
    let facts = recording.facts.clone();
    let gapless = match facts.workload {
        Workload::Exits | Workload::Timerlat => Some(facts.workload.command()),
        _ => None,
    };
    if let Some(command) = gapless {
        return Err(UsageError(format!(
            "{} is of `vmnoise {command}`, which has no gaps: compare recordings of `microvm` or \
             `osnoise`",
            say::name_of(path)
        ))
        .into());
    }
    Ok((facts, recording.span()))
}

fn sample(path: &Path, facts: &RunFacts, threshold_ns: u64, window_ns: u64) -> Result<Sample> {
    let mut recording = Recording::open(path)?;
    let mut sampler = Sampler::new(facts, threshold_ns, window_ns);
    recording.each(|event| {
        sampler.push(event);
        Ok(())
    })?;
    recording.report_ending()?;
    Ok(sampler.finish())
}
