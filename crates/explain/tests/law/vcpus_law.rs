//! Tests the law of exits of vCPUs. The parts of an exit add up to the exit and to its split, and
//! each nanosecond has the name of its owner. A recording gives the same result as the live run.

use std::collections::BTreeMap;

use crate::laws::exits::obeys_the_law;
use crate::streams::any_scenes::any_scenes;
use crate::streams::vcpus::{ExitScene, events_of, explain, facts, traced, vcpu};
use proptest::collection::vec;
use proptest::prelude::*;
use vmnoise_events::*;
use vmnoise_explain::ExitBudget;
use vmnoise_recording::{RecordingReader, Writer};

fn owned(budget: &ExitBudget) -> BTreeMap<(Share, Option<u32>), u64> {
    let parts = budget.parts.iter();
    parts
        .map(|part| ((part.share, part.source.map(|id| id.0)), part.ns))
        .collect()
}

/// Sorts scenes in the order in which their budgets come.
fn by_end(mut scenes: Vec<ExitScene>) -> Vec<ExitScene> {
    scenes.sort_by_key(|scene| (scene.end_ns, scene.vcpu));
    scenes
}

laws! {
    one_in(4);

    #[test]
    fn each_nanosecond_is_its_owners(
        scenes in any_scenes(),
        watermarks in vec(any::<bool>(), 0..60),
    ) {
        let events = events_of(&scenes, &watermarks);
        let (mut budgets, run) = explain(&facts(), &events);
        obeys_the_law(&budgets, &run);
        budgets.sort_by_key(|budget| (budget.exit.end_mono_ns, budget.vcpu));
        let scenes = by_end(scenes);
        prop_assert_eq!(budgets.len(), scenes.len());
        for (budget, scene) in budgets.iter().zip(&scenes) {
            prop_assert_eq!(owned(budget), scene.painted());
            prop_assert_eq!(budget.clamped_ns, 0);
        }
        for longest in &run.longest {
            prop_assert_eq!(longest.misplaced_ns, 0);
        }
        let (trace, _) = traced(&events);
        for reported in &trace {
            let lines: u64 = reported.noise.iter().map(|noise| noise.net_ns).sum();
            let of_lines = reported.exit.parts.iter().filter(|part| part.count > 0);
            let of_lines = of_lines.filter(|part| part.share != Share::Blocked);
            prop_assert_eq!(lines, of_lines.map(|part| part.ns).sum::<u64>());
            let exit = &reported.exit.exit;
            let ends = reported.pieces.iter().map(|piece| piece.end_mono_ns);
            let starts = reported.pieces.iter().map(|piece| piece.start_mono_ns);
            prop_assert!(std::iter::once(exit.start_mono_ns).chain(ends).eq(
                starts.chain([exit.end_mono_ns])
            ));
        }
    }
}

laws! {
    one_in(16);

    #[test]
    fn a_recording_gives_what_the_live_run_gave(
        scenes in any_scenes(),
        watermarks in vec(any::<bool>(), 0..60),
        flush_every in 1_usize..20,
    ) {
        let mut events = events_of(&scenes, &watermarks);
        events.push(Event::Finish(Finish { reason: FinishReason::Duration, mono_ns: 1 }));
        let mut writer = Writer::new(Vec::new(), &facts()).unwrap();
        for chunk in events.chunks(flush_every) {
            chunk.iter().for_each(|event| writer.push(event).unwrap());
            writer.flush().unwrap();
        }
        let bytes = writer.finish().unwrap();
        let mut reader = RecordingReader::new(bytes.as_slice()).unwrap();
        prop_assert_eq!(reader.facts(), &facts());
        let mut replayed = Vec::new();
        reader.for_each(&mut |event| replayed.push(event.clone())).unwrap();
        prop_assert_eq!(traced(&events), traced(&replayed));
        prop_assert_eq!(explain(&facts(), &events), explain(&facts(), &replayed));
    }
}

laws! {
    one_in(1);

    #[test]
    fn holds_for_any_stream(
        words in vec((0_u8..12, any::<[u32; 4]>()), 0..40),
    ) {
        let mut events = vec![crate::streams::source(0, "a:4170"), Event::Vcpu(vcpu(0))];
        events.extend(words.into_iter().map(wild_event));
        let (budgets, run) = explain(&facts(), &events);
        obeys_the_law(&budgets, &run);
        prop_assert_eq!(explain(&facts(), &events), (budgets, run));
    }
}

/// Returns a time. Most times are small, so that they collide; others are at the ends of the clock.
fn at(word: u32) -> u64 {
    match word % 8 {
        0..=5 => u64::from(word >> 3) % 64,
        6 => u64::from(word) << 32,
        _ => u64::MAX - u64::from(word % 64),
    }
}

fn wild_event((which, words): (u8, [u32; 4])) -> Event {
    let [a, b, c, d] = words;
    let (start_mono_ns, end_mono_ns) = (at(a), at(b));
    let vcpu_id = VcpuId(d % 8 / 7);
    match which {
        0..=3 => Event::Activity(Activity {
            cpu: c % 3,
            kind: ActivityKind::ALL[d as usize % 8],
            start_mono_ns,
            end_mono_ns,
            source: SourceId(c % 5 / 3),
            steal_ns: 0,
        }),
        4..=6 => Event::VcpuInterval(VcpuInterval {
            vcpu: vcpu_id,
            kind: VcpuIntervalKind::ALL[c as usize % 4],
            start_mono_ns,
            end_mono_ns,
            cpu: c % 3,
            to_cpu: d % 3,
            source: (d.is_multiple_of(2)).then_some(SourceId(c % 5 / 3)),
        }),
        7 | 8 => {
            let dur_ns = end_mono_ns.saturating_sub(start_mono_ns);
            let split = ShareMap::only(Share::OF_EXITS, |share| match share as u32 % 3 {
                0 => dur_ns / 9,
                1 => at(c.rotate_left(share as u32)),
                _ => 0,
            });
            crate::streams::vcpus::exit_of(
                vcpu_id.0,
                Exit {
                    start_mono_ns,
                    end_mono_ns,
                    reason: ExitReason::arm64(c % 4, d),
                    exit_cpu: c % 3,
                    entry_cpu: d % 3,
                    heavy: false,
                    split: match d.is_multiple_of(3) {
                        true => split,
                        false => ShareMap::from([(Share::Kvm, dur_ns)]),
                    },
                },
            )
        }
        9 => Event::Watermark(at(a)),
        10 => Event::Vcpu(vcpu(d % 8 / 7)),
        _ => Event::VcpuTotals(VcpuTotals {
            vcpu: vcpu_id,
            first_mono_ns: at(a),
            last_mono_ns: at(b),
            exits: at(c),
            heavy: at(d),
            split: ShareMap::only(Share::OF_EXITS, |_| at(c)),
            unseen_ns: at(c),
            worst: None,
            reasons: vec![ReasonTotals {
                reason: None,
                count: at(a),
                heavy: at(b),
                min_ns: at(c),
                max_ns: at(d),
                split: ShareMap::only(Share::OF_EXITS, |_| at(d)),
                histogram: vec![(at(a), at(b)), (at(c), at(d))],
            }],
        }),
    }
}
