//! Gaps, and what each second of a CPU came to.

use vmnoise_events::Share;
use vmnoise_explain::{GapDetail, Interval, PeriodLine};

use super::parts;
use crate::table::{Cell, Kind, Schema};

pub(crate) fn periods() -> Schema {
    let shares = Share::ALL.map(|share| format!("{share}_ns"));
    let shares: Vec<(&str, Kind)> = shares.iter().map(|it| (it.as_str(), Kind::Int)).collect();
    Schema::new(
        "periods",
        &[
            ("time_utc", Kind::Time),
            ("start_mono_ns", Kind::Int),
            ("end_mono_ns", Kind::Int),
            ("cpu", Kind::Int),
            ("runtime_ns", Kind::Int),
            ("gaps", Kind::Int),
            ("noise_ns", Kind::Int),
            ("max_gap_ns", Kind::Int),
        ],
    )
    .with(&shares)
}

/// What one CPU came to between two instants of CLOCK_MONOTONIC.
pub(crate) fn period_row(
    line: &PeriodLine,
    time_us: Option<i64>,
    (start_ns, end_ns): (u64, u64),
) -> impl Iterator<Item = Cell<'static>> {
    let max_gap_ns = (line.gaps > 0).then_some(line.max_gap_ns);
    let head = [
        time_us.into(),
        start_ns.into(),
        end_ns.into(),
        line.cpu.into(),
        line.runtime_ns.into(),
        line.gaps.into(),
        line.noise_ns.into(),
        max_gap_ns.into(),
    ];
    let shares = line.shares.iter().map(|(_, ns)| ns.into());
    head.into_iter().chain(shares)
}

pub(crate) fn gaps() -> Schema {
    Schema::new(
        "gaps",
        &[
            ("gap", Kind::Int),
            ("time_utc", Kind::Time),
            ("cpu", Kind::Int),
            ("start_mono_ns", Kind::Int),
            ("dur_ns", Kind::Int),
            ("residual_ns", Kind::Int),
            ("lost_activities", Kind::Int),
            ("witnessed", Kind::Bool),
        ],
    )
}

pub(crate) fn gap_row(
    number: u64,
    time_us: Option<i64>,
    interval: &Interval,
    gap: &GapDetail,
) -> [Cell<'static>; 8] {
    [
        number.into(),
        time_us.into(),
        interval.cpu.into(),
        interval.start_mono_ns.into(),
        interval.dur_ns.into(),
        interval.residual_ns().into(),
        gap.lost_activities.into(),
        interval.witnessed.into(),
    ]
}

pub(crate) fn parts() -> Schema {
    let more = [("count", Kind::Int), parts::HOST_CPU];
    parts::schema("gap_parts", "gap").with(&more)
}
