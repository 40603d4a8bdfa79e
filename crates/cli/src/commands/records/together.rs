//! Combines runs of one host at one time. For example, each rank of a parallel program may have
//! recorded its own CPU.

use std::collections::HashMap;

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use vmnoise_console::status::UsageError;
use vmnoise_render::recorded::ReadRecording;

/// Returns the time in which both runs measured, in nanoseconds. CLOCK_MONOTONIC restarts at boot,
/// so the wall clock must show an overlap too.
fn overlap_ns(one: &ReadRecording, other: &ReadRecording) -> u64 {
    let times = |run: &ReadRecording| {
        let started: Timestamp = run.origin.started_at.parse().ok()?;
        let (from_ns, to_ns) = span_ns(run);
        let length = i64::try_from(to_ns - from_ns).unwrap_or(i64::MAX);
        let ended = started.saturating_add(SignedDuration::from_nanos(length));
        Some((started, ended.unwrap_or(Timestamp::MAX)))
    };
    let (Some(ours), Some(theirs)) = (times(one), times(other)) else {
        return 0;
    };
    if one.origin.host != other.origin.host || ours.0 >= theirs.1 || theirs.0 >= ours.1 {
        return 0;
    }
    let (span, others) = (span_ns(one), span_ns(other));
    let until_ns = span.1.min(others.1);
    until_ns.saturating_sub(span.0.max(others.0))
}

/// Returns the span in which the run measured all of its CPUs, CLOCK_MONOTONIC in nanoseconds.
fn span_ns(run: &ReadRecording) -> (u64, u64) {
    let records = || run.cpus.iter().map(|cpu| &cpu.record);
    let from_ns = records().map(|it| it.from_ns()).max().unwrap_or(0);
    let to_ns = records().map(|it| it.from_ns() + it.span_ns()).min();
    (from_ns, to_ns.unwrap_or(0).max(from_ns))
}

fn length_ns(run: &ReadRecording) -> u64 {
    let (from_ns, to_ns) = span_ns(run);
    to_ns - from_ns
}

/// Returns a CPU that both runs measured.
fn shared_cpu(one: &ReadRecording, other: &ReadRecording) -> Option<u32> {
    let cpus =
        |run: &ReadRecording| -> Vec<u32> { run.cpus.iter().map(|it| it.record.cpu).collect() };
    let ours = cpus(one);
    cpus(other).into_iter().find(|cpu| ours.contains(cpu))
}

/// Combines runs of one host at one time, so that noise that hit several CPUs together stays
/// together. Runs of a host at other times count as other hosts.
///
/// # Errors
/// If two runs overlap and cannot be combined.
pub(super) fn together(runs: Vec<ReadRecording>) -> Result<Vec<ReadRecording>> {
    let mut all: Vec<ReadRecording> = Vec::new();
    for run in runs {
        match all.iter_mut().find(|it| overlap_ns(it, &run) > 0) {
            Some(other) => join(other, run)?,
            None => all.push(run),
        }
    }
    Ok(all)
}

/// Refuses runs that measured one CPU at the same time.
///
/// # Errors
/// A sentence that names the CPU, and says what to do.
pub fn refuse_two_at_once(one: &ReadRecording, other: &ReadRecording) -> Result<()> {
    match shared_cpu(one, other) {
        Some(cpu) if overlap_ns(one, other) > 0 => Err(UsageError(format!(
            "{} and {} are of CPU {cpu} at the same time: name one of them",
            one.file, other.file
        ))
        .into()),
        _ => Ok(()),
    }
}

/// Refuses a run that was named twice, for example as a recording and in a data set. Data sets keep
/// the start of a run only to the microsecond, so starts are compared in microseconds.
///
/// # Errors
/// A sentence that names both, and says what to do.
pub(super) fn refuse_twice_the_same(all: &[ReadRecording]) -> Result<()> {
    let mut known: HashMap<i64, Vec<&ReadRecording>> = HashMap::new();
    for run in all {
        let Ok(started) = run.origin.started_at.parse::<Timestamp>() else {
            continue;
        };
        let before = known.entry(started.as_microsecond()).or_default();
        // Ranks of a host may start at the same time, each on its own CPU.
        let is_same =
            |it: &&&ReadRecording| may_be_of_one_host(it, run) && shared_cpu(it, run).is_some();
        if let Some(same) = before.iter().find(is_same) {
            return Err(UsageError(format!(
                "{} and {} are of the same run: name one of them",
                same.file, run.file
            ))
            .into());
        }
        before.push(run);
    }
    Ok(())
}

/// Returns whether two runs may be of one host. A recording may lack the name of its host.
fn may_be_of_one_host(one: &ReadRecording, other: &ReadRecording) -> bool {
    let hosts = one.origin.host.as_ref().zip(other.origin.host.as_ref());
    hosts.is_none_or(|(one, other)| one == other)
}

fn join(into: &mut ReadRecording, other: ReadRecording) -> Result<()> {
    refuse_two_at_once(into, &other)?;
    if overlap_ns(into, &other) < length_ns(into).max(length_ns(&other)) / 2 {
        return Err(UsageError(format!(
            "{} and {} overlap for less than half of their time: name one of them",
            into.file, other.file
        ))
        .into());
    }
    let ReadRecording {
        origin,
        cpus,
        coverage,
        ..
    } = other;
    into.origin.cpus.extend(origin.cpus);
    into.origin.cpus.sort_unstable();
    into.cpus.extend(cpus);
    into.cpus.sort_unstable_by_key(|cpu| cpu.record.cpu);
    into.coverage = into.coverage.clone().and(coverage);
    Ok(())
}
