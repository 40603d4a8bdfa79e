//! A recording of as many gaps as one likes.

use std::path::Path;

use vmnoise_events::*;
use vmnoise_recording::Writer;

use super::join_pair::facts;

const BEGIN_NS: u64 = 2_000_000_000;
const EVERY_NS: u64 = 20_000;

/// Writes a recording of so many gaps on two CPUs, each with its interrupt; every so often one is
/// longer than the others, and no two of these are of one length. Their lengths.
pub fn write(path: &Path, gaps: u64, peak_every: u64) -> Vec<u64> {
    let mut facts = facts(Workload::Spin);
    facts.options.cpus = vec![0, 1];
    let mut writer = Writer::create(path, &facts).unwrap();
    let name = "local_timer:236".to_owned();
    let id = SourceId(0);
    writer.push(&Event::Source(Source { id, name })).unwrap();
    let mut peaks = Vec::new();
    for nth in 0..gaps {
        let start_ns = BEGIN_NS + nth * EVERY_NS;
        if nth % 1_000 == 0 {
            let anchor = Anchor {
                before_tsc: start_ns - 30,
                mono_ns: start_ns - 30,
                after_tsc: start_ns,
            };
            writer.push(&Event::Anchor(anchor)).unwrap();
            for cpu in [0, 1] {
                let tally = Tally {
                    cpu,
                    first_tsc: BEGIN_NS,
                    last_tsc: start_ns,
                    blind_tsc: Some(0),
                    ..Tally::default()
                };
                writer.push(&Event::Tally(tally)).unwrap();
            }
            let watermark = Event::Watermark(start_ns - EVERY_NS);
            writer.push(&watermark).unwrap();
        }
        let length_ns = match nth % peak_every {
            0 => {
                peaks.push(9_000 + nth / peak_every);
                9_000 + nth / peak_every
            }
            // Irregular, and shorter.
            _ => 1_000 + nth * nth * 7_919 % 4_000,
        };
        let cpu = (nth % 2) as u32;
        writer
            .push(&Event::Activity(Activity {
                cpu,
                kind: ActivityKind::Irq,
                start_mono_ns: start_ns + 100,
                end_mono_ns: start_ns + length_ns - 100,
                source: id,
                steal_ns: 0,
            }))
            .unwrap();
        writer
            .push(&Event::Gap(Gap {
                cpu,
                start_tsc: start_ns,
                end_tsc: start_ns + length_ns,
                steal_ns: 0,
                reloads: 0,
                light_exits: 0,
                heavy_exits: 0,
                interference: None,
            }))
            .unwrap();
    }
    let mono_ns = BEGIN_NS + gaps * EVERY_NS;
    let anchor = Anchor {
        before_tsc: mono_ns,
        mono_ns,
        after_tsc: mono_ns + 30,
    };
    writer.push(&Event::Anchor(anchor)).unwrap();
    let reason = FinishReason::Duration;
    writer
        .push(&Event::Finish(Finish { reason, mono_ns }))
        .unwrap();
    writer.finish().unwrap();
    peaks
}
