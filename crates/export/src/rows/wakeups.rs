//! How late periodic tasks woke up.

use vmnoise_explain::{Interval, Phase, WakeupDetail};

use super::parts;
use crate::table::{Cell, Kind, Schema};

pub(crate) fn wakeups() -> Schema {
    let phases = Phase::ALL.map(|phase| format!("{}_phase_ns", phase.name()));
    let phases: Vec<(&str, Kind)> = phases.iter().map(|it| (it.as_str(), Kind::Int)).collect();
    Schema::new(
        "wakeups",
        &[
            ("wakeup", Kind::Int),
            ("time_utc", Kind::Time),
            ("cpu", Kind::Int),
            ("expiry_mono_ns", Kind::Int),
            ("latency_ns", Kind::Int),
            ("irq_latency_ns", Kind::Int),
            ("thread_latency_ns", Kind::Int),
            ("missed", Kind::Int),
        ],
    )
    .with(&phases)
    .with(&[("witnessed", Kind::Bool)])
}

pub(crate) fn wakeup_row(
    number: u64,
    time_us: Option<i64>,
    interval: &Interval,
    wakeup: &WakeupDetail,
) -> impl Iterator<Item = Cell<'static>> {
    let head = [
        number.into(),
        time_us.into(),
        interval.cpu.into(),
        interval.start_mono_ns.into(),
        interval.dur_ns.into(),
        wakeup.irq_ns.into(),
        wakeup.thread_ns.into(),
        wakeup.missed.into(),
    ];
    let phases = wakeup.phases_ns.map(Cell::from);
    head.into_iter()
        .chain(phases)
        .chain([interval.witnessed.into()])
}

pub(crate) fn parts() -> Schema {
    let more = [("phase", Kind::Text), parts::HOST_CPU];
    parts::schema("wakeup_parts", "wakeup").with(&more)
}
