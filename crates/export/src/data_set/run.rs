//! Reads the facts about a run, and the sums of its CPUs.

use std::path::Path;

use jiff::Timestamp;
use vmnoise_events::coverage::{ClockCoverage, RunEnd};
use vmnoise_events::{MeasuringCommand, Policy};

use super::error::DataSetError;
use super::rows::{Batch, Table, Wanted};
use crate::partition::workload_named;
use crate::rows::run::end_named;
use crate::table::{ColumnKind, DATA_VERSION};

const RUN: Wanted = &[
    ("data_version", ColumnKind::Int),
    ("tool_version", ColumnKind::Text),
    ("workload", ColumnKind::Text),
    ("started_utc", ColumnKind::Time),
    ("rank", ColumnKind::Int),
    ("kernel", ColumnKind::Text),
    ("hypervisor", ColumnKind::Text),
    ("threshold_ns", ColumnKind::Int),
    ("pauses", ColumnKind::Bool),
    ("complete", ColumnKind::Bool),
    ("lost_events", ColumnKind::Int),
    ("lost_gaps", ColumnKind::Int),
    ("late_events", ColumnKind::Int),
    ("policy", ColumnKind::Text),
];

/// Columns of the table `run` that old versions did not write, except `clock_bound_ns`.
const COVERAGE: Wanted = &[
    ("ended", ColumnKind::Text),
    ("planned_ns", ColumnKind::Int),
    ("clock_bound_ns", ColumnKind::Int),
    ("clock_jumps", ColumnKind::Int),
    ("undated_ns", ColumnKind::Int),
    ("clock_lost_ns", ColumnKind::Int),
    ("damaged", ColumnKind::Bool),
];

const CPUS: Wanted = &[
    ("cpu", ColumnKind::Int),
    ("from_mono_ns", ColumnKind::Int),
    ("to_mono_ns", ColumnKind::Int),
    ("runtime_ns", ColumnKind::Int),
    ("gaps", ColumnKind::Int),
    ("noise_ns", ColumnKind::Int),
    ("max_gap_ns", ColumnKind::Int),
    ("incomplete_gaps", ColumnKind::Int),
];

/// Content of the table `run`, which has one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFacts {
    /// Version of the vmnoise that made the recording.
    pub tool_version: String,
    /// Workload that measured the gaps.
    pub workload: MeasuringCommand,
    /// Start of the run by the wall clock, to the microsecond.
    pub started: Timestamp,
    /// Rank of the recording process in a parallel program; `None` without a rank.
    pub rank: Option<u64>,
    /// Release of the kernel (`uname -r`).
    pub kernel: String,
    /// Hypervisor of the machine; `None` on bare metal.
    pub hypervisor: Option<String>,
    /// Threshold in nanoseconds: shorter gaps were not recorded.
    pub threshold_ns: u64,
    /// Whether the workload polled during only a part of each period.
    pub pauses: bool,
    /// Requested scheduling policy of the workload's threads; `None` if the policy was inherited.
    pub policy: Option<Policy>,
    /// Whether the run ended normally.
    pub complete: bool,
    /// Number of lost records that may have been gaps.
    pub lost_gaps: u64,
    /// Number of other records that were lost or came too late.
    pub lost_witnesses: u64,
    /// End of the run, jumps of its clocks, and damage; `None` if the table does not store them.
    pub coverage: Option<StoredCoverage>,
}

/// Facts that limit what the gaps of a run can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredCoverage {
    /// How the run ended.
    pub end: RunEnd,
    /// Planned duration, in nanoseconds; `None` if the run had no time limit.
    pub planned_ns: Option<u64>,
    /// Errors and jumps of the run's clocks.
    pub clock: ClockCoverage,
    /// Whether the gaps add up to more than the measured time.
    pub is_damaged: bool,
}

/// Rows of the table `cpus`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredCpus {
    /// CPUs that reported something, in the order of the table.
    pub reported: Vec<StoredCpu>,
    /// Numbers of the CPUs that never reported.
    pub silent: Vec<u32>,
}

/// A CPU that reported something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredCpu {
    /// Number of the CPU.
    pub cpu: u32,
    /// First and last reading of the clock by the CPU's workload, CLOCK_MONOTONIC in nanoseconds.
    pub measured_mono_ns: (u64, u64),
    /// Time for which the workload polled between these readings, in nanoseconds.
    pub runtime_ns: u64,
    /// Number of gaps of the CPU.
    pub gaps: u64,
    /// Sum of the lengths of all gaps, in nanoseconds.
    pub noise_ns: u64,
    /// Length of the longest gap, in nanoseconds; `None` without gaps.
    pub max_gap_ns: Option<u64>,
    /// Number of gaps with lost causes; `None` if they were not counted.
    pub incomplete_gaps: Option<u64>,
}

/// Reads the table `run` in this folder.
pub(super) fn facts(folder: &Path) -> Result<StoredFacts, DataSetError> {
    let mut table = Table::open(folder, "run", RUN)?;
    let row = only_row(&mut table)?;
    let fault = |column: usize, what: &str| row.fault(column, 0, what);
    let version = row.count(0, 0)?;
    if version != u64::from(DATA_VERSION) {
        return Err(fault(0, &format!("is {version}, and not {DATA_VERSION}")));
    }
    let text = |column: usize| {
        let text = row.text(column, 0);
        text.map(str::to_owned)
            .ok_or_else(|| fault(column, "is not known"))
    };
    let truth = |column: usize| {
        let truth = row.truth(column, 0);
        truth.ok_or_else(|| fault(column, "is not known"))
    };
    let started_us = i64::try_from(row.count(3, 0)?).unwrap_or(i64::MAX);
    let started = Timestamp::from_microsecond(started_us);
    let policy =
        |letters: &str| Policy::from_letters(letters).ok_or_else(|| fault(13, "is no policy"));
    // In a run without gaps, no gap can be lost.
    let lost_gaps = row.maybe(11, 0)?.unwrap_or(0);
    let lost_witnesses = row.count(10, 0)?.saturating_sub(lost_gaps);
    Ok(StoredFacts {
        tool_version: text(1)?,
        workload: workload_named(&text(2)?).ok_or_else(|| fault(2, "is none"))?,
        started: started.map_err(|_| fault(3, "is no time"))?,
        rank: row.maybe(4, 0)?,
        kernel: text(5)?,
        hypervisor: row.text(6, 0).map(str::to_owned),
        threshold_ns: row.count(7, 0)?,
        pauses: truth(8)?,
        policy: row.text(13, 0).map(policy).transpose()?,
        complete: truth(9)?,
        lost_gaps,
        lost_witnesses: lost_witnesses.saturating_add(row.count(12, 0)?),
        coverage: match table.has(COVERAGE) {
            true => coverage(folder)?,
            false => None,
        },
    })
}

/// Reads the columns [`COVERAGE`]. Returns `None` if one of these facts is unknown.
fn coverage(folder: &Path) -> Result<Option<StoredCoverage>, DataSetError> {
    let row = only_row(&mut Table::open(folder, "run", COVERAGE)?)?;
    let jumped = row.maybe(3, 0)?.zip(row.maybe(4, 0)?);
    let ended = row.text(0, 0).zip(row.truth(6, 0));
    let Some(((jumps, undated_ns), (ended, is_damaged))) = jumped.zip(ended) else {
        return Ok(None);
    };
    Ok(Some(StoredCoverage {
        end: end_named(ended).ok_or_else(|| row.fault(0, 0, "is none"))?,
        planned_ns: row.maybe(1, 0)?,
        clock: ClockCoverage {
            bound_ns: row.maybe(2, 0)?,
            went_back_at_ns: row.maybe(5, 0)?,
            jumps,
            undated_ns,
        },
        is_damaged,
    }))
}

/// Returns the row of a table that has only one row.
fn only_row(table: &mut Table) -> Result<Batch, DataSetError> {
    let row = table.next()?.filter(|batch| batch.rows() == 1);
    row.ok_or_else(|| table.fault("it has not one row"))
}

/// Reads the table `cpus` in this folder.
pub(super) fn cpus(folder: &Path) -> Result<StoredCpus, DataSetError> {
    let mut table = Table::open(folder, "cpus", CPUS)?;
    let mut cpus = StoredCpus::default();
    while let Some(batch) = table.next()? {
        for row in 0..batch.rows() {
            let span = batch.maybe(1, row)?.zip(batch.maybe(2, row)?);
            let cpu = batch.cpu(0, row)?;
            let Some((measured_mono_ns, runtime_ns)) = span.zip(batch.maybe(3, row)?) else {
                cpus.silent.push(cpu);
                continue;
            };
            cpus.reported.push(StoredCpu {
                cpu,
                measured_mono_ns,
                runtime_ns,
                gaps: batch.count(4, row)?,
                noise_ns: batch.count(5, row)?,
                max_gap_ns: batch.maybe(6, row)?,
                incomplete_gaps: batch.maybe(7, row)?,
            });
        }
    }
    Ok(cpus)
}
