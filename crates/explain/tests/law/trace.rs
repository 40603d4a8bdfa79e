//! Tests the trace. Net durations must be those of the budgets. No line may be repeated or lost,
//! and the lines must come in the order of their ends.

use crate::streams::{activity, anchor, gap, with_steal};
use proptest::prelude::*;
use vmnoise_events::{ActivityKind, Event, Share};
use vmnoise_explain::{Explainer, TraceLine, TraceNoise, TraceSample};

/// Kinds of activities that are nested in each other, outermost first.
const LAYERS: [ActivityKind; 4] = [
    ActivityKind::Thread,
    ActivityKind::Softirq,
    ActivityKind::Irq,
    ActivityKind::Nmi,
];

/// All kinds of activities that have lines.
const LINED: [ActivityKind; 6] = [
    ActivityKind::Nmi,
    ActivityKind::Irq,
    ActivityKind::Softirq,
    ActivityKind::Thread,
    ActivityKind::Throttled,
    ActivityKind::Stopped,
];

/// Appends runs of threads with softirqs inside, and so on, down to NMIs. Each word chooses a start
/// or a length.
fn nested(layer: usize, from_ns: u64, to_ns: u64, words: &mut Vec<u32>, out: &mut Vec<Event>) {
    let mut now_ns = from_ns;
    while layer < LAYERS.len() {
        let (Some(pause), Some(length)) = (words.pop(), words.pop()) else {
            return;
        };
        let start_ns = now_ns + u64::from(pause % 60);
        let end_ns = start_ns + u64::from(length % (400 >> layer)) + 1;
        if end_ns > to_ns {
            return;
        }
        nested(layer + 1, start_ns, end_ns, words, out);
        out.push(activity(LAYERS[layer], start_ns, end_ns, layer as u32));
        now_ns = end_ns;
    }
}

/// Returns the time that these spans cover, in nanoseconds. Each nanosecond counts once.
fn union_ns(mut spans: Vec<(u64, u64)>) -> u64 {
    spans.sort_unstable();
    let mut counted_to = 0;
    let mut sum = 0;
    for (start, end) in spans {
        sum += end.saturating_sub(start.max(counted_to));
        counted_to = counted_to.max(end);
    }
    sum
}

fn span(event: &Event) -> Option<(u64, u64)> {
    match event {
        Event::Activity(activity) => Some((activity.start_mono_ns, activity.end_mono_ns)),
        _ => None,
    }
}

fn traced(events: &[Event]) -> Vec<TraceLine> {
    let mut explainer = Explainer::with_trace(&crate::streams::polling_in_a_machine());
    let mut lines = Vec::new();
    for event in events {
        explainer.push(event, &mut |_| ());
        lines.extend(explainer.take_trace());
    }
    explainer.run_out(&mut |_| ());
    lines.extend(explainer.take_trace());
    lines
}

fn noise(lines: &[TraceLine]) -> Vec<&TraceNoise> {
    let noise = lines.iter().filter_map(|line| match line {
        TraceLine::Noise(noise) => Some(noise),
        TraceLine::Sample(_) | TraceLine::Context(_) => None,
    });
    noise.collect()
}

fn samples(lines: &[TraceLine]) -> Vec<(usize, &TraceSample)> {
    let samples = lines.iter().enumerate();
    let samples = samples.filter_map(|(place, line)| match line {
        TraceLine::Sample(sample) => Some((place, sample)),
        TraceLine::Noise(_) | TraceLine::Context(_) => None,
    });
    samples.collect()
}

const SHARES: [Share; 4] = [Share::Thread, Share::Softirq, Share::Irq, Share::Nmi];

laws! {
    one_in(1);

    #[test]
    fn net_durations_add_up_and_agree_with_the_budgets(
        mut words in proptest::collection::vec(any::<u32>(), 2..120),
        cuts in proptest::collection::vec(0_u64..9000, 0..6),
    ) {
        let mut activities = Vec::new();
        nested(0, 10, 9000, &mut words, &mut activities);
        let spans: Vec<_> = activities.iter().filter_map(span).collect();

        // There is a gap around every second run of a thread. Each event arrives when it has ended,
        // and watermarks come at any time.
        let turns = activities.iter().filter(|event| {
            matches!(event, Event::Activity(turn) if turn.kind == ActivityKind::Thread)
        });
        let gaps: Vec<_> = turns.filter_map(span).step_by(2).collect();
        let mut timed: Vec<(u64, Event)> = activities
            .iter()
            .map(|event| (span(event).unwrap().1, event.clone()))
            .chain(gaps.iter().map(|&(start, end)| (end, Event::Gap(gap(start, end)))))
            .chain(cuts.into_iter().flat_map(|cut| {
                [(cut, anchor(cut + 1)), (cut, Event::Watermark(cut))]
            }))
            .collect();
        timed.sort_by_key(|(at, event)| (*at, matches!(event, Event::Watermark(_))));
        let mut events: Vec<Event> = (0..4).map(|id| crate::streams::source(id, "any:1")).collect();
        events.push(anchor(0));
        events.extend(timed.into_iter().map(|(_, event)| event));
        events.push(anchor(20_000));
        events.push(crate::streams::finish());
        let lines = traced(&events);

        prop_assert_eq!(
            noise(&lines).iter().map(|noise| noise.net_ns).sum::<u64>(),
            union_ns(spans)
        );
        let mut reported = noise(&lines);
        reported.sort_by_key(|noise| (noise.start_mono_ns, noise.end_mono_ns));
        let before = reported.len();
        reported.dedup();
        prop_assert_eq!(reported.len(), before, "told twice");
        prop_assert!(lines.is_sorted_by_key(TraceLine::at_mono_ns));

        prop_assert_eq!(samples(&lines).len(), gaps.len());
        for (place, sample) in samples(&lines) {
            let (start, end) = (sample.start_mono_ns, sample.start_mono_ns + sample.dur_ns);
            let inside = |noise: &TraceNoise| noise.start_mono_ns >= start && noise.end_mono_ns <= end;
            for (kind, share) in LAYERS.into_iter().zip(SHARES) {
                let of_lines: u64 = noise(&lines)
                    .iter()
                    .filter(|noise| noise.kind == kind && inside(noise))
                    .map(|noise| noise.net_ns)
                    .sum();
                let parts = sample.parts.iter().filter(|part| part.share == share);
                prop_assert_eq!(of_lines, parts.map(|part| part.ns).sum::<u64>());
            }
            prop_assert!(noise(&lines[place..]).iter().all(|noise| !inside(noise)));
        }
    }

    #[test]
    fn any_stream_loses_and_repeats_no_line(
        events in proptest::collection::vec((0_u64..300, 0_u64..80, 0..ActivityKind::ALL.len(), 0_u64..100), 0..60),
        step in 1_u64..200,
    ) {
        // Activities overlap in all ways, with any steal time. Each event arrives when it ends.
        let mut ends: Vec<(u64, Event)> = events
            .iter()
            .map(|&(start, length, kind, steal_ns)| {
                let end = start + length;
                (end, with_steal(ActivityKind::ALL[kind], start, end, 0, steal_ns))
            })
            .collect();
        ends.sort_by_key(|(end, _)| *end);
        let mut stream = vec![anchor(0), crate::streams::source(0, "any:1")];
        let mut watermark = 0;
        for (end, event) in ends {
            while watermark + step < end {
                watermark += step;
                stream.push(Event::Watermark(watermark));
            }
            stream.push(event);
        }
        let live = traced(&stream);
        let spans = noise(&live);
        prop_assert!(spans.iter().all(|reported| reported.net_ns <= reported.end_mono_ns - reported.start_mono_ns));
        prop_assert!(spans.len() <= events.len());
        for (nth, &(start, length, kind, _)) in events.iter().enumerate() {
            let has_line = LINED.contains(&ActivityKind::ALL[kind]) && length > 0;
            let mut others = events.iter().enumerate().filter(|(other, _)| *other != nth);
            let is_alone = others.all(|(_, other)| other.0 > start + length || other.0 + other.1 < start);
            if is_alone {
                let its = spans.iter().filter(|it| (it.start_mono_ns, it.end_mono_ns) == (start, start + length));
                prop_assert_eq!(its.count(), usize::from(has_line));
            }
        }
        prop_assert!(live.is_sorted_by_key(TraceLine::at_mono_ns));
    }
}

#[test]
fn a_line_waits_for_cpus_that_may_still_report_of_earlier_ones_but_not_for_ever() {
    const MS: u64 = 1_000_000;
    let mut explainer = Explainer::with_trace(&crate::streams::polling_in_a_machine());
    let mut feed = |event| {
        explainer.push(&event, &mut |_| ());
        explainer.take_trace().len()
    };
    feed(crate::streams::source(0, "local_timer:236"));
    feed(activity(ActivityKind::Irq, MS, 2 * MS, 0));
    // The workload has not yet reported a reading of its clock.
    assert_eq!(feed(Event::Watermark(500 * MS)), 0);
    assert_eq!(feed(Event::Watermark(1_002 * MS)), 1);
}

#[test]
fn steal_inside_is_in_no_line() {
    let lines = traced(&[
        anchor(0),
        crate::streams::source(0, "eno1:62"),
        with_steal(ActivityKind::Irq, 100, 190, 0, 60),
    ]);
    assert_eq!(noise(&lines)[0].net_ns, 30);
}
