//! Gaps, and what each second of a CPU came to.

use vmnoise_events::Share;
use vmnoise_explain::{Budget, PeriodLine};

use super::parts;
use crate::table::{Cell, Kind, Schema};

pub(crate) fn periods() -> Schema {
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
    .with_shares(Share::ALL)
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

pub(crate) fn gap_row(gap: u64, time_us: Option<i64>, budget: &Budget) -> [Cell<'static>; 8] {
    [
        gap.into(),
        time_us.into(),
        budget.cpu.into(),
        budget.start_mono_ns.into(),
        budget.dur_ns.into(),
        budget.residual_ns().into(),
        budget.lost_activities.into(),
        budget.witnessed.into(),
    ]
}

pub(crate) fn parts() -> Schema {
    let more = [("count", Kind::Int), parts::HOST_CPU];
    parts::schema("gap_parts", "gap").with(&more)
}
