//! Small recording of `timerlat` with identical wake-ups.

use std::path::Path;

use vmnoise_events::*;
use vmnoise_recording::Writer;

use crate::join_pair::facts;

const PERIOD_NS: u64 = 1_000_000;

/// Writes the recording: CPU 1 wakes up 100 times, each time 20 us late.
pub fn write(path: &Path) {
    let mut facts = facts(MeasuringCommand::Timerlat);
    facts.options.cpus = vec![1];
    facts.options.timer = Some(fixtures::timer(PERIOD_NS));
    facts.witnesses.timer = true;
    let mut writer = Writer::create(path, &facts).unwrap();
    let mut push = |event: Event| writer.push(&event).unwrap();
    let id = SourceId(0);
    let name = "local_timer:236".to_owned();
    push(Event::Source(Source {
        id,
        name: name.into(),
    }));
    for turn in 1..=100 {
        let expiry_mono_ns = 5_000_000_000 + turn * PERIOD_NS;
        push(Event::Activity(Activity {
            cpu: 1,
            kind: ActivityKind::Irq,
            start_mono_ns: expiry_mono_ns + 4_000,
            end_mono_ns: expiry_mono_ns + 9_000,
            source: id,
            steal_ns: 0,
        }));
        push(Event::Activation(Activation {
            cpu: 1,
            expiry_mono_ns,
            woke_mono_ns: expiry_mono_ns + 20_000,
            armed_mono_ns: Some(expiry_mono_ns - 900_000),
            irq_mono_ns: Some(expiry_mono_ns + 5_000),
            waking_mono_ns: Some(expiry_mono_ns + 6_000),
            switch_mono_ns: Some(expiry_mono_ns + 15_000),
            steal_ns: [0; 5],
            missed: 0,
        }));
        push(Event::Watermark(expiry_mono_ns + 30_000));
    }
    push(Event::Finish(Finish {
        reason: FinishReason::Duration,
        mono_ns: 5_200_000_000,
    }));
    writer.finish().unwrap();
}
