//! Tests with random streams of events. Reports must be consistent, even if events are lost or
//! doubled.

use std::collections::HashMap;

use proptest::prelude::*;
use vmnoise_events::ActivityKind::{Irq, Softirq, Thread, Throttled};

use super::harness::{Handlers, IDLE, PAGE, Seen, VCPU};

#[derive(Debug, Clone)]
enum Step {
    IrqEntry(u32),
    IrqExit(u32),
    SoftirqEntry(u64),
    SoftirqExit(u64),
    Switch(u32, bool, u32),
    AfterUnseen(u32, u32, u64, u64),
    Wake,
    Leave,
    Enter,
    Exit,
    Entry,
}

fn step() -> impl Strategy<Value = Step> {
    let task = || prop_oneof![Just(IDLE), Just(VCPU + 1), Just(7), Just(8)];
    prop_oneof![
        (0..3_u32).prop_map(Step::IrqEntry),
        (0..3_u32).prop_map(Step::IrqExit),
        (0..2_u64).prop_map(Step::SoftirqEntry),
        (0..2_u64).prop_map(Step::SoftirqExit),
        (task(), any::<bool>(), task()).prop_map(|(a, b, c)| Step::Switch(a, b, c)),
        (task(), task(), 90..190_u64, 90..190_u64)
            // These times differ from all event times, so the steal clock is not read at them.
            .prop_map(|(a, b, left, came)| Step::AfterUnseen(a, b, left * 10 + 5, came * 10 + 5)),
        Just(Step::Wake),
        Just(Step::Leave),
        Just(Step::Enter),
        Just(Step::Exit),
        Just(Step::Entry),
    ]
}

fn overlap(a: &Seen, b: &Seen) -> bool {
    a.2 < b.3 && b.2 < a.3
}

fn nested(a: &Seen, b: &Seen) -> bool {
    (a.2 <= b.2 && b.3 <= a.3) || (b.2 <= a.2 && a.3 <= b.3)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Checks any stream, even if events are lost or doubled. Reported intervals lie within the
    /// stream's time. Intervals of one kind never cross. A CPU never runs two tasks at once. Each
    /// interval has the steal time between its begin and end.
    #[test]
    fn any_stream_gives_sound_intervals(
        steps in proptest::collection::vec((step(), 0..9_u64), 1..80),
        is_preempt_rt: bool,
    ) {
        let it = Handlers::new(16 * PAGE);
        if is_preempt_rt {
            it.cpus.set_softirq_preemptible(1);
        }
        let mut now_ns = 1000;
        let mut steal_at = HashMap::new();
        for (step, stolen_ns) in &steps {
            now_ns += 10;
            it.steal_ns.update(|steal_ns| steal_ns + stolen_ns);
            steal_at.insert(now_ns, it.steal_ns.get());
            match *step {
                Step::IrqEntry(vector) => it.irq_entry(1, now_ns, vector, "irq"),
                Step::IrqExit(vector) => it.irq_exit(1, now_ns, vector),
                Step::SoftirqEntry(number) => it.softirq_entry(1, now_ns, number),
                Step::SoftirqExit(number) => it.softirq_exit(1, now_ns, number),
                Step::Switch(prev, sleeps, next) => {
                    it.switch(1, now_ns, prev, u64::from(sleeps), next);
                }
                Step::AfterUnseen(prev, next, left_ns, came_ns) => {
                    it.after_unseen(1, now_ns, (prev, 0, next), (left_ns, came_ns));
                }
                Step::Wake => it.wake(1, now_ns, 42, 2),
                Step::Leave => it.run_leave(1, now_ns),
                Step::Enter => it.run_enter(1, now_ns),
                Step::Exit => it.exit(1, now_ns),
                Step::Entry => it.entry(1, now_ns),
            }
        }
        let seen = it.seen();
        for (activity, (_, steal_ns)) in seen.iter().zip(it.steals()) {
            match (steal_at.get(&activity.2), steal_at.get(&activity.3)) {
                (Some(begin), Some(end)) => prop_assert_eq!(steal_ns, end - begin, "{:?}", activity),
                _ => prop_assert!(steal_ns <= it.steal_ns.get(), "{:?}", activity),
            }
        }
        let counts = it.interference(1);
        for (kind, counted) in [(Irq, counts.irq), (Softirq, counts.softirq), (Thread, counts.thread)] {
            let reported = seen.iter().filter(|activity| activity.0 == kind).count() as u64;
            prop_assert!(reported <= counted, "{kind:?}: {reported} told, {counted} counted");
        }
        for (i, a) in seen.iter().enumerate() {
            prop_assert!(1000 < a.2 && a.2 < a.3 && a.3 <= now_ns, "{a:?}");
            for b in &seen[i + 1..] {
                let tasks = [a.0, b.0].iter().all(|kind| [Thread, Throttled].contains(kind));
                prop_assert!(!(tasks && overlap(a, b)), "{a:?} {b:?}");
                let crossing = a.0 == b.0 && overlap(a, b) && !nested(a, b);
                prop_assert!(!crossing, "{a:?} {b:?}");
            }
        }
    }
}
