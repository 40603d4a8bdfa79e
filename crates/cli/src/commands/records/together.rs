//! Runs of one host at one time: ranks of a parallel program that each recorded the CPU that they were on.

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};

use crate::output::recorded::Recorded;
use crate::status::UsageError;

/// A run of a data set.
pub(super) struct Run {
    /// By the wall clock.
    pub(super) started: Timestamp,
    pub(super) recorded: Recorded,
}

impl Run {
    /// From when to when all of its CPUs were looked at, CLOCK_MONOTONIC in nanoseconds.
    fn span_ns(&self) -> (u64, u64) {
        let records = || self.recorded.cpus.iter().map(|cpu| &cpu.record);
        let from_ns = records().map(|it| it.from_ns()).max().unwrap_or(0);
        let to_ns = records().map(|it| it.from_ns() + it.span_ns()).min();
        (from_ns, to_ns.unwrap_or(0).max(from_ns))
    }

    fn length_ns(&self) -> u64 {
        let (from_ns, to_ns) = self.span_ns();
        to_ns - from_ns
    }

    /// For how long both looked. CLOCK_MONOTONIC begins anew as a machine starts, so the wall clock has to say as well
    /// that they ran at one time; nanoseconds.
    fn overlap_ns(&self, other: &Run) -> u64 {
        let ended = |run: &Run| {
            let length = i64::try_from(run.length_ns()).unwrap_or(i64::MAX);
            run.started
                .saturating_add(SignedDuration::from_nanos(length))
                .unwrap_or(Timestamp::MAX)
        };
        if self.started >= ended(other) || other.started >= ended(self) {
            return 0;
        }
        let (span, others) = (self.span_ns(), other.span_ns());
        let until_ns = span.1.min(others.1);
        until_ns.saturating_sub(span.0.max(others.0))
    }
}

/// Puts runs of one host at one time together, for what comes to all of its CPUs at once has to be met at once. Runs of
/// a host at other times are hosts of their own.
///
/// # Errors
/// If two overlap and cannot be looked at together.
pub(super) fn together(runs: Vec<Run>) -> Result<Vec<Recorded>> {
    let mut all: Vec<Run> = Vec::new();
    for run in runs {
        let overlaps = |it: &Run| {
            it.recorded.origin.host == run.recorded.origin.host && it.overlap_ns(&run) > 0
        };
        match all.iter_mut().find(|it| overlaps(it)) {
            Some(other) => join(other, run)?,
            None => all.push(run),
        }
    }
    Ok(all.into_iter().map(|run| run.recorded).collect())
}

fn join(one: &mut Run, other: Run) -> Result<()> {
    let (first, second) = (&one.recorded.file, &other.recorded.file);
    let has = |cpu| one.recorded.cpus.iter().any(|it| it.record.cpu == cpu);
    let mut cpus = other.recorded.cpus.iter().map(|it| it.record.cpu);
    if let Some(cpu) = cpus.find(|cpu| has(*cpu)) {
        return Err(UsageError(format!(
            "{first} and {second} are of CPU {cpu} at the same time: name one of them"
        ))
        .into());
    }
    if one.overlap_ns(&other) < one.length_ns().max(other.length_ns()) / 2 {
        return Err(UsageError(format!(
            "{first} and {second} overlap for less than half of their time: name one of them"
        ))
        .into());
    }
    let Recorded {
        origin,
        cpus,
        limits,
        ..
    } = other.recorded;
    let into = &mut one.recorded;
    into.origin.cpus.extend(origin.cpus);
    into.origin.cpus.sort_unstable();
    into.cpus.extend(cpus);
    into.cpus.sort_unstable_by_key(|cpu| cpu.record.cpu);
    into.limits = into.limits.and(limits);
    Ok(())
}
