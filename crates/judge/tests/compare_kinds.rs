//! Comparisons of wake-ups and of exits: an added difference is found, and no other difference.

use vmnoise_events::fixtures::by_hand::{
    CPUID, IO, activity, anchor, facts, finish, of_tasks, source, vcpu, vcpu_facts,
};
use vmnoise_events::*;
use vmnoise_judge::compare::{
    ComparedFigure, ComparisonVerdict, LatencyContext, Measuring, OfReason, RunFigures, compare,
};

const SECOND_NS: u64 = 1_000_000_000;
const PERIOD_NS: u64 = 4_000_000;

fn measure(facts: &RunFacts, events: &[Event], window_ns: u64) -> RunFigures {
    let mut measuring = Measuring::new(facts, 0, window_ns);
    events.iter().for_each(|event| measuring.push(event));
    measuring.finish()
}

/// Returns random numbers below 1,024, different for each seed.
fn scattered(seed: u64, nth: u64) -> u64 {
    let mixed = (seed << 32 ^ nth).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40 & 1_023
}

/// Measures a task on CPU 1 for ten seconds. At each wake-up, the thread `hog` delays the task for
/// `held_ns` after the timer's interrupt.
fn wakeups(seed: u64, held_ns: u64) -> RunFigures {
    let mut events = vec![anchor(0), source(0, "hog:7"), Event::Watermark(0)];
    for nth in 1..10 * SECOND_NS / PERIOD_NS {
        let expiry_ns = nth * PERIOD_NS;
        let irq_ns = expiry_ns + 1_000 + scattered(seed, nth);
        let switch_ns = irq_ns + 2_000 + held_ns;
        if held_ns > 0 {
            let from_ns = irq_ns + 1_000;
            events.push(activity(
                ActivityKind::Thread,
                from_ns,
                from_ns + held_ns,
                0,
            ));
        }
        events.push(Event::Activation(Activation {
            cpu: 1,
            expiry_mono_ns: expiry_ns,
            armed_mono_ns: Some(expiry_ns - 1_000),
            irq_mono_ns: Some(irq_ns),
            waking_mono_ns: Some(irq_ns + 500),
            switch_mono_ns: Some(switch_ns),
            woke_mono_ns: switch_ns + 700,
            ..Activation::default()
        }));
        let now_ns = expiry_ns + PERIOD_NS / 2;
        events.push(anchor(now_ns));
        events.push(Event::Tally(CpuTally {
            cpu: 1,
            last_tsc: now_ns,
            blind_tsc: Some(0),
            ..CpuTally::default()
        }));
        events.push(Event::Watermark(now_ns));
    }
    events.push(finish());
    measure(&of_tasks(facts()), &events, SECOND_NS / 2)
}

#[test]
fn a_task_that_holds_up_wake_ups_is_found_behind_the_interrupt() {
    const HELD_NS: u64 = 20_000;
    let rows = compare(&wakeups(1, 0), &wakeups(2, HELD_NS));
    let of = |figure| rows.iter().find(|row| row.figure == figure).unwrap();
    for context in [LatencyContext::Thread, LatencyContext::User] {
        let row = of(ComparedFigure::Latency(context, 5_000));
        assert_eq!(row.verdict, ComparisonVerdict::Different, "{row:?}");
        // The median of a window is off by at most the 1,024 ns of random scatter, and is rounded
        // to three digits.
        let shift_ns = row.shift.unwrap();
        assert!((shift_ns - HELD_NS as f64).abs() < 1_100.0, "{row:?}");
    }
    let taken = of(ComparedFigure::Delay(Share::Thread));
    assert_eq!(taken.verdict, ComparisonVerdict::Different, "{taken:?}");
    assert_eq!(
        (taken.first, taken.second),
        (Some(0.0), Some(HELD_NS as f64))
    );
    for rank in [5_000, 9_900, 10_000] {
        let irq = of(ComparedFigure::Latency(LatencyContext::Irq, rank));
        assert_eq!(irq.verdict, ComparisonVerdict::NotShown, "{irq:?}");
    }
}

#[test]
fn windows_in_which_nobody_woke_up_are_none() {
    let mut facts = of_tasks(facts());
    facts.options.cpus = vec![1];
    let asleep: Vec<Event> = (0..=100)
        .map(|nth| Event::Watermark(nth * SECOND_NS / 10))
        .collect();
    let found = measure(&facts, &asleep, SECOND_NS / 2);
    assert_eq!(found.windows, 0);
    assert_eq!(
        found.figure(&ComparedFigure::Latency(LatencyContext::User, 5_000)),
        None
    );
}

/// Measures a host for twenty seconds. Each second has `count` exits of 3 us for CPUID, and `of_io`
/// exits for I/O in the bucket from 10,240 to 12,287 ns.
fn exits(seed: u64, of_io: u64, filter: ExitFilter) -> RunFigures {
    let facts = RunFacts {
        options: RunOptions {
            exits: Some(filter),
            ..vcpu_facts().options
        },
        ..vcpu_facts()
    };
    let mut events = vec![Event::Vcpu(vcpu(0)), Event::Watermark(0)];
    let (mut cpuids, mut ios) = (0, 0);
    for second in 1..=20 {
        cpuids += 100 + scattered(seed, second) % 10;
        ios += of_io + scattered(seed + 50, second) % 3;
        let reason = |code, count, ns: u64, edge_ns| ReasonTotals {
            reason: Some(ExitReason {
                isa: Isa::Svm,
                code,
            }),
            count,
            heavy: 0,
            min_ns: ns,
            max_ns: ns,
            split: ShareMap::from([(Share::Kvm, count * ns)]),
            histogram: vec![(edge_ns, count)],
        };
        events.push(Event::VcpuTotals(VcpuTotals {
            vcpu: VcpuId(0),
            first_mono_ns: 1,
            last_mono_ns: second * SECOND_NS + 1,
            exits: cpuids + ios,
            heavy: 0,
            split: ShareMap::from([(Share::Kvm, cpuids * 3_000 + ios * 11_000)]),
            unseen_ns: 0,
            worst: None,
            reasons: vec![
                reason(CPUID, cpuids, 3_000, 3_071),
                reason(IO, ios, 11_000, 12_287),
            ],
        }));
        events.push(Event::Watermark(second * SECOND_NS));
    }
    events.push(finish());
    measure(&facts, &events, SECOND_NS)
}

#[test]
fn a_reason_that_became_more_frequent_is_found_and_no_other() {
    let all = ExitFilter::default;
    let rows = compare(&exits(1, 10, all()), &exits(2, 40, all()));
    let of = |figure: ComparedFigure| rows.iter().find(|row| row.figure == figure).unwrap();
    let of_io = of(ComparedFigure::Reason("io".into(), OfReason::Exits));
    assert_eq!(of_io.verdict, ComparisonVerdict::Different, "{of_io:?}");
    assert!((of_io.shift.unwrap() - 30.0).abs() <= 2.0, "{of_io:?}");
    let time = of(ComparedFigure::Reason("io".into(), OfReason::Time));
    let percent = 30.0 * 11_000.0 * 100.0 / SECOND_NS as f64;
    assert_eq!(time.verdict, ComparisonVerdict::Different, "{time:?}");
    assert!(
        (time.shift.unwrap() - percent).abs() < percent / 10.0,
        "{time:?}"
    );
    for figure in ComparedFigure::of_reason(&"cpuid".into()) {
        assert_eq!(of(figure).verdict, ComparisonVerdict::NotShown);
    }
    // The length of each exit stays the same.
    let longest = of(ComparedFigure::Reason("io".into(), OfReason::Max));
    assert_eq!(
        (longest.first, longest.second),
        (Some(11_000.0), Some(11_000.0))
    );
    assert_eq!(longest.verdict, ComparisonVerdict::NotShown);
}

#[test]
fn windows_of_exits_add_up_to_their_run() {
    let found = exits(3, 10, ExitFilter::default());
    assert_eq!(found.windows, 20);
    for figure in [
        ComparedFigure::Exits,
        ComparedFigure::Reason("io".into(), OfReason::Time),
    ] {
        let windows = found.by_window(&figure).unwrap();
        let mean = windows.iter().sum::<f64>() / windows.len() as f64;
        let whole = found.figure(&figure).unwrap();
        assert!((mean - whole).abs() < whole * 1e-9, "{mean} {whole}");
    }
}

#[test]
fn nothing_is_known_of_reasons_that_were_not_asked_for() {
    let only_io = ExitFilter {
        reasons: vec!["IO".into()],
        ..ExitFilter::default()
    };
    let (found, all) = (exits(4, 10, only_io), exits(5, 10, ExitFilter::default()));
    let of_cpuid = ComparedFigure::Reason("cpuid".into(), OfReason::Exits);
    assert_eq!(found.figure(&of_cpuid), None);
    assert!(found.figure(&ComparedFigure::Reason("io".into(), OfReason::Exits)) > Some(0.0));
    // A selected reason without exits has the figure 0.
    let of_hlt = ComparedFigure::Reason("hlt".into(), OfReason::Exits);
    assert_eq!(
        (found.figure(&of_hlt), all.figure(&of_hlt)),
        (None, Some(0.0))
    );
    let rows = compare(&found, &all);
    let row = rows.iter().find(|row| row.figure == of_cpuid).unwrap();
    assert_eq!(
        (row.verdict, row.first),
        (ComparisonVerdict::Untested, None)
    );
}
