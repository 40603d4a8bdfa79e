//! Verdicts on runs, and facts that prevent a verdict.

use vmnoise_events::coverage::{Hidden, WhyUnwatched};
use vmnoise_events::{
    ActivityKind, Anchor, CpuTally, Event, Loss, LossKind, MeasuringCommand, RunFacts, Share,
};
use vmnoise_judge::check::{
    Budget, BudgetLimitResult, CheckVerdict, EvidenceReader, LimitVerdict, Quantity, Reason,
    Requirement,
};
use vmnoise_judge::compare::StreamSpan;

use crate::compare::run;
use vmnoise_events::fixtures::by_hand::{
    activity, anchor, facts, finish, gap, polling_in_a_machine, source,
};

pub const SECOND_NS: u64 = 1_000_000_000;
/// Steal time in each gap, in nanoseconds.
const STEAL_NS: u64 = 4_000;
/// Steal time in percent, for fifty gaps per second.
const STEAL_PERCENT: f64 = 50.0 * STEAL_NS as f64 * 100.0 / SECOND_NS as f64;

pub fn limit(name: &str, at_most: f64) -> Requirement {
    Requirement {
        quantity: Quantity::from_name(name).unwrap(),
        at_most,
        warn_above: None,
    }
}

pub fn judge_run(facts: &RunFacts, events: &[Event], budget: &Budget) -> CheckVerdict {
    let mut span = StreamSpan::default();
    events.iter().for_each(|event| span.push(event));
    let mut reader = EvidenceReader::new(facts, span, budget);
    events.iter().for_each(|event| reader.push(event));
    CheckVerdict::new(budget, &reader.finish())
}

/// Judges a run of ten seconds by one limit. In each period of 20 ms there is a gap of 9 to 19 us.
fn judge(
    requirement: Requirement,
    change: impl FnOnce(&mut RunFacts, &mut Vec<Event>),
) -> (CheckVerdict, BudgetLimitResult) {
    let mut facts = polling_in_a_machine();
    let mut events = run(7, STEAL_NS);
    change(&mut facts, &mut events);
    let budget = Budget {
        requirements: vec![requirement],
        runtime_ns: None,
    };
    let judged = judge_run(&facts, &events, &budget);
    let judgement = judged.judgements[0].clone();
    (judged, judgement)
}

fn hidden(reasons: &[Reason]) -> Vec<Hidden> {
    let spots = reasons.iter().filter_map(|it| match it {
        Reason::Blind(spot) => Some(spot.hidden().clone()),
        _ => None,
    });
    spots.collect()
}

fn verdict(name: &str, at_most: f64) -> LimitVerdict {
    judge(limit(name, at_most), |_, _| {}).0.verdict
}

#[test]
fn what_a_run_had_is_kept_or_broken_by_the_nanosecond() {
    let (_, kept) = judge(limit("max", 19_000.0), |_, _| {});
    let max_ns = kept.value.unwrap();
    assert_eq!(
        (kept.verdict, &kept.reasons[..]),
        (LimitVerdict::Pass, &[][..])
    );
    assert_eq!(verdict("max", max_ns), LimitVerdict::Pass);
    assert_eq!(verdict("max", max_ns - 1.0), LimitVerdict::Fail);
    assert_eq!(verdict("gaps", 50.1), LimitVerdict::Pass);
    assert_eq!(verdict("gaps", 49.9), LimitVerdict::Fail);
    assert_eq!(verdict("steal", STEAL_PERCENT * 1.01), LimitVerdict::Pass);
    assert_eq!(verdict("steal", STEAL_PERCENT * 0.99), LimitVerdict::Fail);
    // The run has 50 gaps per second of 9 to 19 us.
    assert_eq!(verdict("noise", 0.095), LimitVerdict::Pass);
    assert_eq!(verdict("noise", 0.045), LimitVerdict::Fail);
}

#[test]
fn who_took_the_longest_is_said_where_it_was_too_long() {
    let (_, broken) = judge(limit("max", 9_000.0), |_, _| {});
    assert_eq!(broken.reasons, [Reason::Above]);
    let blame = &broken.blame;
    let ns: u64 = blame.iter().map(|it| it.ns).sum();
    assert_eq!(ns as f64, broken.value.unwrap(), "{blame:?}");
    let shares: Vec<Share> = blame.iter().map(|it| it.share).collect();
    assert!(
        shares.contains(&Share::Steal) && shares.contains(&Share::HvOrHw),
        "{blame:?}"
    );
}

#[test]
fn a_percentile_needs_its_values() {
    // Fewer than 2 % of the 500 gaps reach this length.
    assert_eq!(verdict("p90", 19_000.0), LimitVerdict::Pass);
    // All gaps are longer than this limit.
    assert_eq!(verdict("p90", 8_000.0), LimitVerdict::Fail);
    let (judged, open) = judge(limit("p99.999", 19_000.0), |_, _| {});
    assert_eq!(judged.verdict, LimitVerdict::CannotTell);
    let [
        Reason::TooFew {
            count,
            needed: Some(needed),
        },
    ] = open.reasons[..]
    else {
        panic!("{:?}", open.reasons);
    };
    // If none of n values is above the limit, less than 4.6 / n of all values are above it. This is
    // wrong with the probability 1 %.
    assert!(count == 500 && needed > 460_000, "{count} {needed}");
    // The run has 50 gaps a second.
    let ask_for_s = judged.ask_for_ns.unwrap() / SECOND_NS;
    assert!(ask_for_s.abs_diff(needed / 50) <= 1, "{ask_for_s}");
}

#[test]
fn what_was_lost_may_have_been_above() {
    let lose = |_: &mut RunFacts, events: &mut Vec<Event>| {
        let loss = Loss {
            kind: LossKind::MailboxFull,
            count: 3,
        };
        events.insert(2, Event::Loss(loss));
    };
    for name in ["max", "noise", "gaps", "steal"] {
        let (judged, open) = judge(limit(name, 1e6), lose);
        assert_eq!(judged.verdict, LimitVerdict::CannotTell, "{name}");
        assert_eq!(hidden(&open.reasons), [Hidden::Lost { count: 3 }], "{name}");
    }
    // A broken limit stays broken.
    assert_eq!(
        judge(limit("max", 9_000.0), lose).0.verdict,
        LimitVerdict::Fail
    );
    // 3 of 503 gaps are less than 10 %, however long the lost gaps were.
    assert_eq!(
        judge(limit("p90", 19_000.0), lose).0.verdict,
        LimitVerdict::Pass
    );
    let (_, open) = judge(limit("p99", 19_000.0), lose);
    assert!(
        matches!(open.reasons[..], [Reason::TooFew { .. }, Reason::Blind(_)]),
        "{open:?}"
    );
}

/// If records with names are lost, the owner of their time is unknown. This machine cannot see the
/// time that its hypervisor takes.
#[test]
fn who_was_lost_may_be_anybody() {
    for name in ["thread", "irq", "thread by x*"] {
        assert_eq!(verdict(name, 0.01), LimitVerdict::Pass, "{name}");
        for kind in [LossKind::RingFull, LossKind::Recursion, LossKind::Unpaired] {
            let lose = |_: &mut RunFacts, events: &mut Vec<Event>| {
                events.insert(2, Event::Loss(Loss { kind, count: 1 }));
            };
            let (judged, open) = judge(limit(name, 0.01), lose);
            assert_eq!(judged.verdict, LimitVerdict::CannotTell, "{name} {kind:?}");
            let [Reason::MayBe { booked_as, .. }, ..] = &open.reasons[..] else {
                panic!("{name} {kind:?}: {open:?}");
            };
            assert_eq!(booked_as, &[Share::HvOrHw]);
            // The upper bound is at most the time of all gaps.
            assert_eq!(
                judge(limit(name, 0.1), lose).0.verdict,
                LimitVerdict::Pass,
                "{name}"
            );
            // No gap is lost with these records.
            assert_eq!(
                judge(limit("max", 19_000.0), lose).0.verdict,
                LimitVerdict::Pass
            );
        }
    }
    // A record that could not be read may have been a gap.
    for kind in [LossKind::Undecodable, LossKind::Unrecorded] {
        let (judged, _) = judge(limit("max", 19_000.0), |_, events| {
            events.insert(2, Event::Loss(Loss { kind, count: 1 }));
        });
        assert_eq!(judged.verdict, LimitVerdict::CannotTell, "{kind:?}");
    }
}

#[test]
fn a_run_is_as_long_as_it_polled() {
    let budget = Budget {
        requirements: vec![limit("max", 19_000.0)],
        runtime_ns: Some(9 * SECOND_NS),
    };
    let judge_with = |pauses: bool| {
        let mut facts = polling_in_a_machine();
        facts.options.duration_ns = 10 * SECOND_NS;
        facts.options.runtime_ns = pauses.then_some(facts.options.period_ns / 1_000);
        let mut events = run(7, STEAL_NS);
        if pauses {
            for event in &mut events {
                if let Event::Tally(tally) = event {
                    tally.blind_tsc = Some(tally.last_tsc / 1_000 * 999);
                }
            }
        }
        judge_run(&facts, &events, &budget).verdict
    };
    assert_eq!(judge_with(false), LimitVerdict::Pass);
    assert_eq!(judge_with(true), LimitVerdict::CannotTell);
}

#[test]
fn what_nobody_witnessed_is_not_kept() {
    let (judged, open) = judge(limit("hw", 100.0), |_, _| {});
    assert_eq!(judged.verdict, LimitVerdict::CannotTell);
    let hidden = hidden(&open.reasons);
    let why = WhyUnwatched::LayerBelow;
    let share = Some(Share::Hw);
    assert!(
        hidden.contains(&Hidden::Unwatched { share, why }),
        "{open:?}"
    );
    assert_eq!(open.value, None);
}

#[test]
fn shorter_gaps_than_were_recorded_are_not_judged() {
    for (name, at_most) in [
        ("max", 20_000.0),
        ("noise", 100.0),
        ("gaps", 1e6),
        ("steal", 100.0),
    ] {
        let (judged, _) = judge(limit(name, at_most), |facts, _| {
            facts.options.threshold_ns = 30_000
        });
        assert_eq!(judged.verdict, LimitVerdict::CannotTell, "{name}");
    }
    let (_, open) = judge(limit("max", 20_000.0), |facts, _| {
        facts.options.threshold_ns = 30_000
    });
    assert_eq!(
        hidden(&open.reasons),
        [Hidden::Threshold {
            threshold_ns: 30_000
        }]
    );
}

#[test]
fn a_run_that_is_too_short_keeps_nothing() {
    let budget = Budget {
        requirements: vec![limit("max", 19_000.0), limit("gaps", 1.0)],
        runtime_ns: Some(11 * SECOND_NS),
    };
    let judged = judge_run(&polling_in_a_machine(), &run(7, STEAL_NS), &budget);
    let verdicts: Vec<LimitVerdict> = judged.judgements.iter().map(|it| it.verdict).collect();
    assert_eq!(verdicts, [LimitVerdict::CannotTell, LimitVerdict::Fail]);
    assert_eq!(judged.ask_for_ns, Some(11 * SECOND_NS));
    let short = Reason::Short {
        length_ns: 10 * SECOND_NS,
        asked_ns: 11 * SECOND_NS,
    };
    assert!(judged.reasons.contains(&short), "{judged:?}");
}

#[test]
fn what_was_not_measured_keeps_nothing() {
    let (judged, _) = judge(limit("max", 19_000.0), |facts, _| {
        facts.options.cpus = vec![1, 5]
    });
    assert_eq!(judged.verdict, LimitVerdict::CannotTell);
    let silent = Hidden::Silent { cpus: vec![5] };
    assert!(hidden(&judged.reasons).contains(&silent), "{judged:?}");
    let budget = Budget {
        requirements: vec![limit("max", 1e9)],
        runtime_ns: None,
    };
    let mut facts = polling_in_a_machine();
    facts.workload = MeasuringCommand::Observed;
    facts.options.cpus = Vec::new();
    let judged = judge_run(&facts, &[Event::Watermark(0), finish()], &budget);
    assert_eq!(judged.verdict, LimitVerdict::CannotTell);
    let of_limit = hidden(&judged.judgements[0].reasons);
    assert!(of_limit.contains(&Hidden::BelowObserved), "{judged:?}");
}

/// The workload's clock cannot be trusted after the clock went back. So no limit is kept, but a
/// broken limit stays broken.
#[test]
fn a_clock_that_went_back_keeps_nothing() {
    let go_back = |_: &mut RunFacts, events: &mut Vec<Event>| {
        let behind = Event::Anchor(Anchor {
            before_tsc: SECOND_NS,
            mono_ns: 8 * SECOND_NS + 1,
            after_tsc: SECOND_NS,
        });
        let is_late = |event: &Event| matches!(event, Event::Watermark(ns) if *ns >= 8 * SECOND_NS);
        let place = events.iter().position(is_late).unwrap() + 1;
        events.insert(place, behind);
    };
    for (name, at_most) in [
        ("max", 1e9),
        ("p90", 19_000.0),
        ("steal", 50.0),
        ("noise", 50.0),
    ] {
        let (judged, _) = judge(limit(name, at_most), go_back);
        assert_eq!(
            judged.verdict,
            LimitVerdict::CannotTell,
            "{name} {judged:?}"
        );
        let is_back = |it: &Hidden| matches!(it, Hidden::ClockWentBack { .. });
        assert!(hidden(&judged.reasons).iter().any(is_back), "{judged:?}");
    }
    let (judged, _) = judge(limit("max", 9_000.0), go_back);
    assert_eq!(judged.verdict, LimitVerdict::Fail);
}

/// An activity that arrives after its time was explained is added to no share.
#[test]
fn what_was_told_late_may_be_anybodys() {
    let tell_late = |_: &mut RunFacts, events: &mut Vec<Event>| {
        let place = events.len() - 1;
        let late = activity(ActivityKind::Thread, SECOND_NS, SECOND_NS + 5_000, 0);
        events.splice(place..place, [source(0, "kworker/0:1:7"), late]);
    };
    for name in ["thread", "irq", "thread by x*"] {
        let (judged, open) = judge(limit(name, 0.01), tell_late);
        assert_eq!(
            judged.verdict,
            LimitVerdict::CannotTell,
            "{name} {judged:?}"
        );
        let [Reason::MayBe { booked_as, .. }, ..] = &open.reasons[..] else {
            panic!("{name}: {open:?}");
        };
        assert_eq!(booked_as, &[Share::HvOrHw]);
    }
    // Only the activity was late, not a gap.
    assert_eq!(
        judge(limit("max", 19_000.0), tell_late).0.verdict,
        LimitVerdict::Pass
    );
}

/// If an exit contains time of others, KVM's part of the exit may also belong to the host. Enough
/// exits without time of others show KVM's usual time.
#[test]
fn what_nothing_bounds_of_kvm_may_be_the_hosts() {
    const EXIT_NS: u64 = 8_000;
    const IRQ_NS: u64 = 1_000;
    // There are 50 exits, each with an interrupt.
    let mut facts = facts();
    facts.options.duration_ns = SECOND_NS;
    let mut events = vec![
        source(0, "io"),
        source(1, "eth0:30"),
        anchor(0),
        Event::Watermark(0),
    ];
    for tick in 1..=50 {
        let (now, end) = (tick * 20_000_000, tick * 20_000_000 - 10_000_000);
        let begin = end - EXIT_NS;
        events.push(activity(
            ActivityKind::Irq,
            begin + 2_000,
            begin + 2_000 + IRQ_NS,
            1,
        ));
        events.push(activity(ActivityKind::Exit, begin, end, 0));
        events.push(Event::Gap(gap(begin - 200, end + 200)));
        events.push(anchor(now));
        events.push(Event::Tally(CpuTally {
            cpu: 1,
            last_tsc: now,
            blind_tsc: Some(0),
            ..CpuTally::default()
        }));
        events.push(Event::Watermark(now));
    }
    events.push(finish());
    let percent = |ns: u64| ns as f64 * 50.0 * 100.0 / SECOND_NS as f64;
    let judge = |name: &str, at_most: f64| {
        let budget = Budget {
            requirements: vec![limit(name, at_most)],
            runtime_ns: None,
        };
        let judged = judge_run(&facts, &events, &budget);
        (judged.verdict, judged.judgements[0].clone())
    };
    // The time is counted for KVM, but may belong to others.
    let (verdict, judgement) = judge("kvm", percent(EXIT_NS - IRQ_NS) * 0.5);
    let value = judgement.value.unwrap();
    assert!(
        (value - percent(EXIT_NS - IRQ_NS)).abs() < 1e-9,
        "{judgement:?}"
    );
    assert_eq!(verdict, LimitVerdict::CannotTell, "{judgement:?}");
    assert_eq!(judge("kvm", percent(EXIT_NS + 400)).0, LimitVerdict::Pass);
    // The interrupt took at least its own time, and at most KVM's time in addition.
    assert_eq!(
        judge("host_irq", percent(IRQ_NS) * 0.5).0,
        LimitVerdict::Fail
    );
    let (verdict, judgement) = judge("host_irq", percent(IRQ_NS) * 1.5);
    assert_eq!(verdict, LimitVerdict::CannotTell, "{judgement:?}");
    let [Reason::MayBe { booked_as, .. }, ..] = &judgement.reasons[..] else {
        panic!("{judgement:?}");
    };
    assert_eq!(booked_as, &[Share::Kvm]);
    assert_eq!(
        judge("host_irq", percent(EXIT_NS + 400)).0,
        LimitVerdict::Pass
    );
}

#[test]
fn a_run_that_was_cut_off_keeps_nothing() {
    let cut_off = |facts: &mut RunFacts, events: &mut Vec<Event>| {
        facts.options.duration_ns = 36_000 * SECOND_NS;
        events.pop();
    };
    for (name, at_most) in [("max", 19_000.0), ("p90", 19_000.0), ("noise", 50.0)] {
        let (judged, _) = judge(limit(name, at_most), cut_off);
        assert_eq!(judged.verdict, LimitVerdict::CannotTell, "{name}");
        let cut_off = Hidden::CutOff {
            measured_ns: 10 * SECOND_NS,
            planned_ns: Some(36_000 * SECOND_NS),
        };
        assert_eq!(hidden(&judged.reasons), [cut_off], "{name}");
    }
    let (judged, _) = judge(limit("max", 9_000.0), cut_off);
    assert_eq!(judged.verdict, LimitVerdict::Fail);
}

/// A short gap is missed while the thread writes another gap. Writing takes 10,000 cycles, which
/// are 10,000 ns here.
#[test]
fn a_limit_below_what_writing_takes_is_not_kept() {
    let nothing = |_: &mut RunFacts, events: &mut Vec<Event>| {
        events.retain(|event| !matches!(event, Event::Gap(_)));
    };
    let (judged, open) = judge(limit("max", 9_999.0), nothing);
    assert_eq!(judged.verdict, LimitVerdict::CannotTell);
    assert_eq!(
        hidden(&open.reasons),
        [Hidden::Writing { below_ns: 10_000 }]
    );
    assert_eq!(
        judge(limit("max", 10_000.0), nothing).0.verdict,
        LimitVerdict::Pass
    );
}

/// A short gap is missed in the same way if a limit says how often such gaps may come. All gaps
/// have 5 us, so each limit is kept by far.
#[test]
fn how_often_is_not_known_below_what_writing_takes() {
    let shorten = |_: &mut RunFacts, events: &mut Vec<Event>| {
        for event in events {
            if let Event::Gap(gap) = event {
                gap.start_tsc = gap.end_tsc - 5_000;
            }
        }
    };
    for (name, at_most, is_known) in [
        ("p90", 9_999.0, false),
        ("p90", 10_000.0, true),
        ("gaps>9999ns", 10.0, false),
        ("gaps>10us", 10.0, true),
    ] {
        let (judged, judgement) = judge(limit(name, at_most), shorten);
        let expected = match is_known {
            true => (LimitVerdict::Pass, vec![]),
            false => {
                let writing = Hidden::Writing { below_ns: 10_000 };
                (LimitVerdict::CannotTell, vec![writing])
            }
        };
        let found = (judged.verdict, hidden(&judgement.reasons));
        assert_eq!(found, expected, "{name} {at_most} {judgement:?}");
    }
}

/// The recorder observes nothing while it writes a gap. Other gaps may have taken all of this time.
#[test]
fn noise_is_kept_only_if_unobserved_time_may_be_noise() {
    // 0.1 % of the time is unobserved: 10 ms of 10 s.
    let blind = |facts: &mut RunFacts, events: &mut Vec<Event>| {
        facts.options.threshold_ns = 1_000;
        for event in events {
            if let Event::Tally(tally) = event {
                tally.blind_tsc = Some(tally.last_tsc / 1_000);
            }
        }
    };
    // 500 gaps of 9 to 19 us take 0.045 % to 0.095 %; with the unobserved time 0.145 % to 0.195 %.
    // 10,000 gaps of 1 us fit into the unobserved time: 10,500 in 10 s are 1,050 per second.
    for (name, at_most, verdict) in [
        ("noise", 0.04, LimitVerdict::Fail),
        ("noise", 0.14, LimitVerdict::CannotTell),
        ("noise", 0.2, LimitVerdict::Pass),
        ("gaps", 49.9, LimitVerdict::Fail),
        ("gaps", 1_049.0, LimitVerdict::CannotTell),
        ("gaps", 1_051.0, LimitVerdict::Pass),
    ] {
        let (judged, judgement) = judge(limit(name, at_most), blind);
        assert_eq!(judged.verdict, verdict, "{name} {at_most} {judgement:?}");
        let expected = match verdict {
            LimitVerdict::CannotTell => vec![Hidden::Unplaced { ns: 10_000_000 }],
            _ => vec![],
        };
        assert_eq!(hidden(&judgement.reasons), expected, "{name} {at_most}");
    }
}

/// Gaps in the unmeasured part of each period are unknown. The rate of long gaps is known from the
/// measured part.
#[test]
fn a_run_that_pauses_keeps_no_maximum() {
    let pause = |facts: &mut RunFacts, _: &mut Vec<Event>| {
        facts.options.runtime_ns = Some(facts.options.period_ns / 2);
    };
    for (name, at_most) in [("max", 19_000.0), ("noise", 50.0), ("steal", 50.0)] {
        let (judged, _) = judge(limit(name, at_most), pause);
        assert_eq!(judged.verdict, LimitVerdict::CannotTell, "{name}");
    }
    let (judged, _) = judge(limit("p90", 19_000.0), pause);
    assert_eq!(judged.verdict, LimitVerdict::Pass);
}

#[test]
fn a_run_that_had_company_warns() {
    let (judged, _) = judge(limit("max", 19_000.0), |facts, _| facts.shares_cpu = true);
    assert_eq!(judged.verdict, LimitVerdict::Warn);
    let warn = Requirement {
        warn_above: Some(9_000.0),
        ..limit("max", 19_000.0)
    };
    let (judged, warned) = judge(warn, |_, _| {});
    assert_eq!(
        (judged.verdict, warned.reasons),
        (LimitVerdict::Warn, vec![Reason::AboveWarning])
    );
}

#[test]
fn somebody_has_what_is_booked_to_their_name_and_maybe_what_nobody_is_named_for() {
    // A task takes 8 us of one gap, in the middle of a period without other gaps.
    let run_of_task = |_: &mut RunFacts, events: &mut Vec<Event>| {
        let (begin, end) = (1_000_000, 1_010_000);
        let task = activity(ActivityKind::Thread, begin + 1_000, begin + 9_000, 0);
        let place = events
            .iter()
            .position(|event| matches!(event, Event::Watermark(_)));
        let place = place.unwrap() + 1;
        events.splice(
            place..place,
            [
                source(0, "kworker/0:1:7"),
                task,
                Event::Gap(gap(begin, end)),
            ],
        );
    };
    let percent = 8_000.0 * 100.0 / (10.0 * SECOND_NS as f64);
    for name in ["thread by kworker/*", "thread"] {
        let (kept, _) = judge(limit(name, percent * 1.01), run_of_task);
        assert_eq!(kept.verdict, LimitVerdict::Pass, "{name} {kept:?}");
        let (broken, judgement) = judge(limit(name, percent * 0.99), run_of_task);
        assert_eq!(broken.verdict, LimitVerdict::Fail, "{name}");
        assert_eq!(judgement.blame[0].name.as_deref(), Some("kworker/0:1:7"));
    }
    let (other, judgement) = judge(limit("thread by ksoftirqd/*", 0.0), run_of_task);
    assert_eq!(
        (other.verdict, judgement.value),
        (LimitVerdict::Pass, Some(0.0))
    );
    // The task may have caused some of the hypervisor's time, whose owner is unknown.
    let (anybody, judgement) = judge(limit("by kworker/*", percent * 1.01), run_of_task);
    assert_eq!(anybody.verdict, LimitVerdict::CannotTell);
    let [Reason::MayBe { booked_as, .. }, ..] = &judgement.reasons[..] else {
        panic!("{judgement:?}");
    };
    assert!(booked_as.contains(&Share::HvOrHw), "{booked_as:?}");
}
