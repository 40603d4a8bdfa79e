//! Reads the facts about a run, and the sums of its CPUs.

use std::path::Path;

use jiff::Timestamp;
use vmnoise_events::{MeasuringCommand, Policy};

use super::error::DataSetError;
use super::rows::{Table, Wanted};
use crate::partition::workload_named;
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
}

/// A row of the table `cpus`.
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
    let Some(row) = table.next()?.filter(|batch| batch.rows() == 1) else {
        return Err(table.fault("it has not one row"));
    };
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
    })
}

/// Reads the table `cpus` in this folder. Leaves out CPUs that reported nothing.
pub(super) fn cpus(folder: &Path) -> Result<Vec<StoredCpu>, DataSetError> {
    let mut table = Table::open(folder, "cpus", CPUS)?;
    let mut cpus = Vec::new();
    while let Some(batch) = table.next()? {
        for row in 0..batch.rows() {
            let span = batch.maybe(1, row)?.zip(batch.maybe(2, row)?);
            let Some((measured_mono_ns, runtime_ns)) = span.zip(batch.maybe(3, row)?) else {
                continue;
            };
            cpus.push(StoredCpu {
                cpu: batch.cpu(0, row)?,
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
