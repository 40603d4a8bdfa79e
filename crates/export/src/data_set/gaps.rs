//! Reads the gaps of a run, and the parts of each gap.

use std::fmt::Write;
use std::path::Path;

use vmnoise_events::Share;

use super::error::DataSetError;
use super::rows::{Batch, Table, Wanted};
use crate::table::ColumnKind;

const GAPS: Wanted = &[
    ("gap", ColumnKind::Int),
    ("cpu", ColumnKind::Int),
    ("start_mono_ns", ColumnKind::Int),
    ("dur_ns", ColumnKind::Int),
];

const PARTS: Wanted = &[
    ("gap", ColumnKind::Int),
    ("share", ColumnKind::Text),
    ("source", ColumnKind::Text),
    ("source_number", ColumnKind::Int),
    ("ns", ColumnKind::Int),
];

/// Element of a run's gaps: either a gap, or a part of the gap before it.
#[derive(Debug, Clone, Copy)]
pub enum GapRows<'a> {
    /// The next gap of the run.
    Gap(StoredGap),
    /// The next part of the gap that came last.
    Part(StoredPart<'a>),
}

/// A gap, as stored in the table `gaps`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredGap {
    /// Number of the CPU that lost the time.
    pub cpu: u32,
    /// Begin of the gap, CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// Length of the gap, in nanoseconds.
    pub dur_ns: u64,
}

/// A part of a gap, as stored in the table `gap_parts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredPart<'a> {
    /// Share in which the part's time is counted.
    pub share: Share,
    /// Name of the source without its number; `None` if unknown.
    pub source: Option<&'a str>,
    /// Number of the source; `None` if the source has no number.
    pub source_number: Option<u64>,
    /// Time of the part in nanoseconds, without the time of nested parts.
    pub ns: u64,
}

impl StoredPart<'_> {
    /// Appends the source's name and number to `name`, as in recordings: `ksmd:31`.
    pub fn put_name(&self, name: &mut String) {
        name.push_str(self.source.unwrap_or_default());
        if let Some(number) = self.source_number {
            let _ = write!(name, ":{number}");
        }
    }
}

/// Reader of the table `gap_parts` that keeps its position.
struct Parts {
    table: Table,
    batch: Option<Batch>,
    row: usize,
}

impl Parts {
    /// Returns the batch and the row of the next part; `None` after the last part.
    fn here(&mut self) -> Result<Option<(&Batch, usize)>, DataSetError> {
        if self.batch.as_ref().is_none_or(|it| self.row == it.rows()) {
            self.batch = self.table.next()?;
            self.row = 0;
        }
        Ok(self.batch.as_ref().map(|batch| (batch, self.row)))
    }
}

/// Reads the gaps of the run in this folder. Calls `on_stored` for each gap in the order of gap
/// numbers, and after each gap for its parts.
pub(super) fn each(
    folder: &Path,
    on_stored: &mut dyn FnMut(GapRows<'_>),
) -> Result<(), DataSetError> {
    let mut gaps = Table::open(folder, "gaps", GAPS)?;
    let mut parts = Parts {
        table: Table::open(folder, "gap_parts", PARTS)?,
        batch: None,
        row: 0,
    };
    let mut number = 0;
    while let Some(batch) = gaps.next()? {
        for row in 0..batch.rows() {
            if batch.count(0, row)? != number {
                return Err(batch.fault(0, row, &format!("is not {number}")));
            }
            on_stored(GapRows::Gap(StoredGap {
                cpu: batch.cpu(1, row)?,
                start_mono_ns: batch.count(2, row)?,
                dur_ns: batch.count(3, row)?,
            }));
            while let Some((batch, row)) = parts.here()? {
                let of = batch.count(0, row)?;
                if of < number {
                    return Err(batch.fault(0, row, &format!("is {of}, behind {}", number)));
                }
                if of > number {
                    break;
                }
                on_stored(GapRows::Part(part(batch, row)?));
                parts.row += 1;
            }
            number += 1;
        }
    }
    match parts.here()? {
        None => Ok(()),
        Some((batch, row)) => Err(batch.fault(0, row, "is of a gap that is not there")),
    }
}

fn part(batch: &Batch, row: usize) -> Result<StoredPart<'_>, DataSetError> {
    let share = batch.text(1, row).and_then(Share::named);
    Ok(StoredPart {
        share: share.ok_or_else(|| batch.fault(1, row, "is no share"))?,
        source: batch.text(2, row),
        source_number: batch.maybe(3, row)?,
        ns: batch.count(4, row)?,
    })
}
