//! Reads the gaps of a run with their parts.

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

/// An element of a run: a gap, which is followed by its parts.
#[derive(Debug, Clone, Copy)]
pub enum GapRows<'a> {
    /// The next gap.
    Gap(StoredGap),
    /// The next part of the last gap.
    Part(StoredPart<'a>),
}

/// A gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredGap {
    /// CPU that lost the time.
    pub cpu: u32,
    /// Begin, CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// Length in nanoseconds.
    pub dur_ns: u64,
}

/// A part of a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredPart<'a> {
    /// Share of the part.
    pub share: Share,
    /// Name of the source without a number; `None` if it is unknown.
    pub source: Option<&'a str>,
    /// Number after the name.
    pub source_number: Option<u64>,
    /// Net time in nanoseconds.
    pub ns: u64,
}

impl StoredPart<'_> {
    /// Appends the source to `name` in the form of recordings: `ksmd:31`.
    pub fn put_name(&self, name: &mut String) {
        name.push_str(self.source.unwrap_or_default());
        if let Some(number) = self.source_number {
            let _ = write!(name, ":{number}");
        }
    }
}

/// Parts of gaps, from the present position on.
struct Parts {
    table: Table,
    batch: Option<Batch>,
    row: usize,
}

impl Parts {
    /// Returns the batch and the row of the next part, if there is one.
    fn here(&mut self) -> Result<Option<(&Batch, usize)>, DataSetError> {
        if self.batch.as_ref().is_none_or(|it| self.row == it.rows()) {
            self.batch = self.table.next()?;
            self.row = 0;
        }
        Ok(self.batch.as_ref().map(|batch| (batch, self.row)))
    }
}

/// Calls `on_stored` for the gaps of the run in this folder, in the order of their numbers, each
/// followed by its parts.
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
