//! The table of wake-ups: latencies of periodic tasks.

use vmnoise_events::column::Columns;
use vmnoise_explain::{Interval, Phase};

use super::parts;
use crate::table::{ColumnKind, Schema};

pub(crate) fn wakeups() -> Schema {
    let place = [("wakeup", ColumnKind::Int), ("time_utc", ColumnKind::Time)];
    Schema::new("wakeups", &place).with_columns(&columns())
}

pub(crate) fn columns() -> Columns<'static, Interval> {
    Columns::<Interval>::default()
        .count("cpu", |wakeup| u64::from(wakeup.cpu))
        .time("expiry_mono_ns", |wakeup| wakeup.start_mono_ns)
        .time("latency_ns", |wakeup| wakeup.dur_ns)
        .time("irq_latency_ns", |it| it.wakeup()?.irq_ns)
        .time("thread_latency_ns", |it| it.wakeup()?.thread_ns)
        .count("missed", |it| Some(u64::from(it.wakeup()?.missed)))
        .each(Phase::ALL, |it, phase| {
            let title = format!("{}_phase_ns", phase.name());
            it.time(title, move |it| it.wakeup()?.phase_ns(phase))
        })
        .truth("witnessed", |wakeup| wakeup.witnessed)
}

pub(crate) fn parts() -> Schema {
    let more = [("phase", ColumnKind::Text), parts::HOST_CPU];
    parts::schema("wakeup_parts", "wakeup").with(&more)
}
