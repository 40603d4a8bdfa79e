//! The tables of gaps, and of the sums of each CPU for each second.

use vmnoise_events::Share;
use vmnoise_events::column::Columns;
use vmnoise_explain::{Interval, PeriodLine};

use super::{parts, share_column};
use crate::table::{ColumnKind, Schema};

pub(crate) fn periods() -> Schema {
    let span = [
        ("time_utc", ColumnKind::Time),
        ("start_mono_ns", ColumnKind::Int),
        ("end_mono_ns", ColumnKind::Int),
    ];
    Schema::new("periods", &span).with_columns(&period_columns())
}

/// Returns the columns for the sums of one CPU in a period.
pub(crate) fn period_columns() -> Columns<'static, PeriodLine> {
    Columns::<PeriodLine>::default()
        .count("cpu", |line| u64::from(line.cpu))
        .time("runtime_ns", |line| line.runtime_ns)
        .count("gaps", |line| line.gaps)
        .time("noise_ns", |line| line.noise_ns)
        .time("max_gap_ns", |line| {
            (line.gaps > 0).then_some(line.max_gap_ns)
        })
        .each(Share::ALL, |it, share| {
            it.time(share_column(share), move |line| line.shares[share])
        })
}

pub(crate) fn gaps() -> Schema {
    let place = [("gap", ColumnKind::Int), ("time_utc", ColumnKind::Time)];
    Schema::new("gaps", &place).with_columns(&gap_columns())
}

pub(crate) fn gap_columns() -> Columns<'static, Interval> {
    Columns::<Interval>::default()
        .count("cpu", |gap| u64::from(gap.cpu))
        .time("start_mono_ns", |gap| gap.start_mono_ns)
        .time("dur_ns", |gap| gap.dur_ns)
        .time("residual_ns", Interval::residual_ns)
        .count("lost_activities", |gap| gap.gap()?.lost_activities)
        .truth("witnessed", |gap| gap.witnessed)
}

pub(crate) fn parts() -> Schema {
    let more = [("count", ColumnKind::Int), parts::HOST_CPU];
    parts::schema("gap_parts", "gap").with(&more)
}
