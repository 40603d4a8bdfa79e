//! How late periodic tasks woke up.

use vmnoise_events::column::Columns;
use vmnoise_explain::{Phase, Wakeup};

use super::parts;
use crate::table::{Kind, Schema};

pub(crate) fn wakeups() -> Schema {
    let place = [("wakeup", Kind::Int), ("time_utc", Kind::Time)];
    Schema::new("wakeups", &place).with_columns(&columns())
}

pub(crate) fn columns() -> Columns<'static, Wakeup> {
    Columns::<Wakeup>::default()
        .count("cpu", |wakeup| u64::from(wakeup.cpu))
        .time("expiry_mono_ns", |wakeup| wakeup.expiry_mono_ns)
        .time("latency_ns", |wakeup| wakeup.latency_ns)
        .time("irq_latency_ns", |wakeup| wakeup.irq_ns)
        .time("thread_latency_ns", |wakeup| wakeup.thread_ns)
        .count("missed", |wakeup| u64::from(wakeup.missed))
        .each(Phase::ALL, |it, phase| {
            let title = format!("{}_phase_ns", phase.name());
            it.time(title, move |wakeup| wakeup.phases_ns[phase as usize])
        })
        .truth("witnessed", |wakeup| wakeup.witnessed)
}

pub(crate) fn parts() -> Schema {
    let more = [("phase", Kind::Text), parts::HOST_CPU];
    parts::schema("wakeup_parts", "wakeup").with(&more)
}
