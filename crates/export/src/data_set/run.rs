//! What was measured in a run, and what each of its CPUs came to.

use std::path::Path;

use jiff::Timestamp;
use vmnoise_events::{Policy, Workload};

use super::error::DataSetError;
use super::rows::{Table, Wanted};
use crate::partition::workload_named;
use crate::table::{DATA_VERSION, Kind};

const RUN: Wanted = &[
    ("data_version", Kind::Int),
    ("tool_version", Kind::Text),
    ("workload", Kind::Text),
    ("started_utc", Kind::Time),
    ("rank", Kind::Int),
    ("kernel", Kind::Text),
    ("hypervisor", Kind::Text),
    ("threshold_ns", Kind::Int),
    ("pauses", Kind::Bool),
    ("complete", Kind::Bool),
    ("lost_events", Kind::Int),
    ("lost_gaps", Kind::Int),
    ("late_events", Kind::Int),
    ("policy", Kind::Text),
];

const CPUS: Wanted = &[
    ("cpu", Kind::Int),
    ("from_mono_ns", Kind::Int),
    ("to_mono_ns", Kind::Int),
    ("runtime_ns", Kind::Int),
    ("gaps", Kind::Int),
    ("noise_ns", Kind::Int),
    ("max_gap_ns", Kind::Int),
    ("incomplete_gaps", Kind::Int),
];

/// What the table `run` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFacts {
    /// The vmnoise that recorded.
    pub tool_version: String,
    /// Who observed.
    pub workload: Workload,
    /// When it started, by the wall clock to the microsecond.
    pub started: Timestamp,
    /// The rank of the process that recorded.
    pub rank: Option<u64>,
    /// `uname -r`.
    pub kernel: String,
    /// What the machine itself ran on; `None` on bare metal.
    pub hypervisor: Option<String>,
    /// Gaps of at least this length were reported, nanoseconds.
    pub threshold_ns: u64,
    /// Whether it polled but a part of each period.
    pub pauses: bool,
    /// How its threads were to be scheduled; `None` as inherited.
    pub policy: Option<Policy>,
    /// Whether it ended in order.
    pub complete: bool,
    /// Lost records that may have been gaps.
    pub lost_gaps: u64,
    /// All else that was lost, or came too late.
    pub lost_witnesses: u64,
}

/// What the table `cpus` says of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredCpu {
    /// Its number.
    pub cpu: u32,
    /// When its workload read the clock first and last, CLOCK_MONOTONIC in nanoseconds.
    pub measured_mono_ns: (u64, u64),
    /// How long the workload ran in between, nanoseconds.
    pub runtime_ns: u64,
    /// Gaps.
    pub gaps: u64,
    /// Their length together, nanoseconds.
    pub noise_ns: u64,
    /// The longest, nanoseconds; `None` where there is none.
    pub max_gap_ns: Option<u64>,
    /// Gaps of which some of those who took them were lost; `None` where no counter could say.
    pub incomplete_gaps: Option<u64>,
}

/// Reads the only row of the table `run` in this folder.
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
    // What has no gaps loses none.
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

/// Reads the table `cpus` in this folder, without those of which nothing was reported.
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
