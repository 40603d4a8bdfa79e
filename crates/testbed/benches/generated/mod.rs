//! Generates a recording of 10 million events, for benches that read a recording.

use std::path::Path;

use anyhow::Result;
use vmnoise_events::{
    Activity, ActivityKind, Anchor, Event, Finish, FinishReason, Gap, MeasuringCommand, RunFacts,
    Source, SourceId, fixtures,
};
use vmnoise_recording::Writer;

/// Number of events in the recording.
pub const EVENTS: u64 = 10_000_000;
/// Number of gaps. The recording has three activities per gap.
const GAPS: u64 = EVENTS / 4;
const GAP_EVERY_NS: u64 = 20_000;

/// Writes the recording to this file.
pub fn generate(path: &Path) -> Result<()> {
    let mut writer = Writer::create(path, &facts())?;
    let sources = ["local_timer:236", "SCHED:7", "stress-ng:4711"];
    for (id, name) in (0..).zip(sources) {
        writer.push(&Event::Source(Source {
            id: SourceId(id),
            name: name.into(),
        }))?;
    }
    let anchor = |mono_ns: u64| Anchor {
        before_tsc: mono_ns,
        mono_ns,
        after_tsc: mono_ns,
    };
    for gap in 0..GAPS {
        let start = 1_000_000 + gap * GAP_EVERY_NS;
        let kinds = [
            ActivityKind::Irq,
            ActivityKind::Softirq,
            ActivityKind::Thread,
        ];
        for (offset, kind) in (0..).zip(kinds) {
            let start_mono_ns = start + 1_000 + u64::from(offset) * 2_000;
            writer.push(&Event::Activity(Activity {
                cpu: 1,
                kind,
                start_mono_ns,
                end_mono_ns: start_mono_ns + 1_500 + gap % 400,
                source: SourceId(offset),
                steal_ns: 0,
            }))?;
        }
        writer.push(&Event::Gap(Gap {
            cpu: 1,
            start_tsc: start,
            end_tsc: start + 9_000,
            steal_ns: 1_900,
            reloads: 1,
            light_exits: 1,
            heavy_exits: 0,
            interference: None,
            run_delay_ns: 0,
        }))?;
        if gap % 1_000 == 999 {
            let now = start + GAP_EVERY_NS - 1_000;
            writer.push(&Event::Anchor(anchor(now)))?;
            writer.push(&Event::Watermark(now))?;
        }
    }
    let mono_ns = 1_000_000 + GAPS * GAP_EVERY_NS;
    writer.push(&Event::Finish(Finish {
        reason: FinishReason::Duration,
        mono_ns,
    }))?;
    writer.finish()?;
    Ok(())
}

fn facts() -> RunFacts {
    let mut facts = fixtures::facts(MeasuringCommand::Microvm);
    facts.options.duration_ns = GAPS * GAP_EVERY_NS;
    facts.options.threshold_ns = 1_000;
    facts.options.top = 10;
    facts.witnesses.activity_steal = false;
    facts.witnesses.timer = false;
    facts
}
