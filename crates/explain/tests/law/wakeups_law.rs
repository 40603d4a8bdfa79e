//! Tests the law of wake-ups with arbitrary streams. The parts of each wake-up add up to its
//! latency, the parts of each phase to the phase, and the sums to all latencies. A second, naive
//! implementation must give the same result.

use std::collections::BTreeMap;

use super::holds_for;
use crate::laws::wakeups::{obeys_the_law, run};
use proptest::prelude::*;
use vmnoise_events::{
    Activation, Activity, ActivityKind, Event, MeasuringCommand, RunFacts, Share, SourceId,
    TimerOptions, Witnesses, fixtures,
};

type Words = (u8, u8, [u32; 6]);

/// Returns a time. Half of the times are small, so that they collide.
fn at(word: u32, extreme: bool) -> u64 {
    let value = u64::from(word >> 3);
    match word % 8 {
        0..=4 => value % 64,
        5 if extreme => value << 36,
        6 if extreme => u64::MAX - value % 64,
        _ => value % 600,
    }
}

fn event(extreme: bool, (which, cpu, [a, b, c, d, e, f]): Words) -> Event {
    let cpu = u32::from(cpu % 2);
    let start = at(a, extreme);
    let end = match b % 7 {
        0 => at(b / 7, extreme),
        _ => start.saturating_add(at(b, extreme)),
    };
    let step =
        |word: u32| (!word.is_multiple_of(5)).then(|| start.saturating_add(at(word / 5, extreme)));
    match which % 16 {
        0 => crate::streams::source(a % 4, "anyone"),
        1..=5 => Event::Activation(Activation {
            cpu,
            expiry_mono_ns: start,
            woke_mono_ns: end,
            armed_mono_ns: step(c),
            irq_mono_ns: step(d),
            waking_mono_ns: step(e),
            switch_mono_ns: step(f),
            steal_ns: [b, c, d, e, f].map(|word| at(word / 3, extreme)),
            missed: c % 3,
        }),
        6..=13 => Event::Activity(Activity {
            cpu,
            kind: ActivityKind::ALL[c as usize % 8],
            start_mono_ns: start,
            end_mono_ns: end,
            source: SourceId(d % 5),
            steal_ns: at(e, extreme),
        }),
        14 => crate::streams::anchor(start.max(1)),
        _ => Event::Watermark(at(a, extreme)),
    }
}

fn facts(bits: u16, period_ns: u64) -> RunFacts {
    let bit = |n: u16| bits >> n & 1 == 1;
    let mut facts = crate::streams::facts();
    facts.workload = MeasuringCommand::Timerlat;
    facts.witnesses = Witnesses {
        irq: bit(0),
        softirq: bit(1),
        nmi: bit(2),
        sched: bit(3),
        activity_steal: bit(4),
        timer: bit(5),
        ..Witnesses::default()
    };
    facts.host.hypervisor = bit(6).then(|| "KVM".to_owned()).map(Into::into);
    facts.options.timer = Some(TimerOptions {
        stop_irq_ns: bit(7).then_some(40),
        stop_thread_ns: bit(8).then_some(90),
        ..fixtures::timer(period_ns)
    });
    facts
}

/// Returns the time of each share in a wake-up, counted one nanosecond at a time, without steal
/// time.
fn naive(activation: &Activation, events: &[Event]) -> BTreeMap<Share, u64> {
    let mut booked = BTreeMap::new();
    let (expiry_ns, woke_ns) = (activation.expiry_mono_ns, activation.woke_mono_ns);
    let steps = [activation.armed_mono_ns, activation.irq_mono_ns];
    // The phase of the interrupt is known if both of its ends are known. Ends that are out of order
    // are moved later.
    let armed_ns = steps[0].map(|ns| ns.clamp(expiry_ns, woke_ns));
    let irq_phase = armed_ns
        .zip(steps[1])
        .map(|(from_ns, to_ns)| from_ns..to_ns.clamp(from_ns, woke_ns));
    for ns in expiry_ns..woke_ns {
        let waits_for_irq = irq_phase.as_ref().is_some_and(|phase| phase.contains(&ns));
        let kinds = events.iter().filter_map(|event| match event {
            Event::Activity(it)
                if it.cpu == activation.cpu && (it.start_mono_ns..it.end_mono_ns).contains(&ns) =>
            {
                Some(it.kind)
            }
            _ => None,
        });
        let holding = |kind: &ActivityKind| {
            !waits_for_irq || matches!(kind, ActivityKind::Irq | ActivityKind::Nmi)
        };
        let share = match kinds.filter(holding).max() {
            None => Share::Unexplained,
            Some(ActivityKind::Exit) => Share::Kvm,
            Some(ActivityKind::Vmm) => Share::Vmm,
            Some(ActivityKind::Throttled) => Share::Throttled,
            Some(ActivityKind::Thread) => Share::Thread,
            Some(ActivityKind::Blocked | ActivityKind::Stopped) => Share::Blocked,
            Some(ActivityKind::Softirq) => Share::Softirq,
            Some(ActivityKind::Irq) => Share::Irq,
            Some(ActivityKind::Nmi) => Share::Nmi,
        };
        *booked.entry(share).or_insert(0) += 1;
    }
    booked
}

fn stream(words: Vec<Words>, extreme: bool) -> Vec<Event> {
    words
        .into_iter()
        .map(|words| event(extreme, words))
        .collect()
}

laws! {
    one_in(1);

    #[test]
    fn the_law_holds_for_any_stream(
        bits in any::<u16>(),
        period_ns in 0..80u64,
        words in prop::collection::vec(any::<Words>(), 0..16),
    ) {
        obeys_the_law(&facts(bits, period_ns), &stream(words, false));
    }

    #[test]
    fn the_law_is_what_a_naive_reader_of_the_stream_books(
        words in prop::collection::vec(any::<Words>(), 0..12),
    ) {
        // This run is on bare metal with all probes, and has one wake-up and no late event.
        let mut events = stream(words, false);
        events.retain(|event| !matches!(event, Event::Watermark(_)));
        let is_wakeup = |event: &Event| matches!(
            event, Event::Activation(it) if it.woke_mono_ns >= it.expiry_mono_ns
        );
        let wakeup = events.iter().find(|it| is_wakeup(it)).cloned();
        prop_assume!(wakeup.is_some());
        let Some(Event::Activation(activation)) = wakeup else {
            unreachable!("an activation was looked for")
        };
        events.retain(|event| !matches!(event, Event::Activation(_)));
        events.push(Event::Activation(activation));
        let (wakeups, _) = run(&facts(0b10_1111, 50), &events);
        let mut booked = BTreeMap::new();
        for part in &wakeups[0].parts {
            *booked.entry(part.share).or_insert(0) += part.ns;
        }
        prop_assert_eq!(booked, naive(&activation, &events));
    }
}

/// Tries fewer streams than PROPTEST_CASES, as the test of gaps does.
#[test]
fn the_law_holds_at_the_ends_of_the_clocks() {
    let streams = (any::<u16>(), prop::collection::vec(any::<Words>(), 0..16));
    let law = |(bits, words)| {
        obeys_the_law(&facts(bits, 1 << 61), &stream(words, true));
        Ok(())
    };
    holds_for(64, streams, law);
}
