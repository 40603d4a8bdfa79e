//! Tests how a stream becomes a summary: waiting events, late events, and unknown values.

use crate::streams::{
    activity, anchor, explain, facts, finish, gap, in_a_machine, parts, polling_in_a_machine,
    source,
};
use vmnoise_events::ActivityKind::{Blocked, Irq, Thread};
use vmnoise_events::fixtures::ALL_WITNESSES;
use vmnoise_events::{
    CpuTally, Event, Finish, FinishReason, Gap, Loss, LossKind, OwnCost, RunFacts, Share, SourceId,
    Witnesses,
};
use vmnoise_explain::{Explainer, GuestColumns, InterferenceColumns, Summary};

fn nulls(summary: &Summary) -> Vec<&'static str> {
    let unknown = summary.cpus[0]
        .shares_ns
        .iter()
        .filter(|(_, ns)| ns.is_none());
    unknown.map(|(share, _)| share.name()).collect()
}

#[test]
fn what_no_witness_could_see_is_null() {
    let summary = |facts: &RunFacts| explain(facts, &[anchor(0), finish()]).1;
    assert_eq!(nulls(&summary(&facts())), ["hv_or_hw"]);
    assert_eq!(nulls(&summary(&in_a_machine())), ["hw", "unexplained"]);
    let mut facts = facts();
    facts.witnesses = Witnesses {
        sched: false,
        kvm_exit: false,
        ..ALL_WITNESSES
    };
    assert_eq!(
        nulls(&summary(&facts)),
        [
            "preempted",
            "throttled",
            "blocked",
            "kvm",
            "hw",
            "unexplained"
        ]
    );
    facts.witnesses = Witnesses::default();
    assert_eq!(
        nulls(&summary(&facts)),
        [
            "preempted",
            "steal",
            "throttled",
            "blocked",
            "host_irq",
            "host_softirq",
            "host_nmi",
            "kvm",
            "vmm",
            "hw",
            "hv_or_hw"
        ]
    );
}

#[test]
fn a_polling_thread_knows_nothing_from_below() {
    let summary = |facts: &RunFacts| explain(facts, &[anchor(0), finish()]).1;
    let below = [
        "preempted",
        "host_irq",
        "host_softirq",
        "host_nmi",
        "kvm",
        "vmm",
        "halted",
    ];
    let mut facts = polling_in_a_machine();
    assert_eq!(
        nulls(&summary(&facts)),
        [&below[..], &["hw", "unexplained"]].concat()
    );
    facts.host.hypervisor = None;
    assert_eq!(
        nulls(&summary(&facts)),
        [&below[..], &["hv_or_hw"]].concat()
    );
    facts.witnesses = Witnesses::default();
    let untraced = summary(&facts);
    let known = untraced.cpus[0].shares_ns.iter();
    let known: Vec<_> = known.filter(|(_, ns)| ns.is_some()).collect();
    assert_eq!(known, [(Share::Unexplained, Some(0))]);
    assert_eq!(
        untraced.cpus[0].interference,
        InterferenceColumns::default()
    );
    assert_eq!(untraced.cpus[0].guest_columns, GuestColumns::default());
}

#[test]
fn without_an_anchor_nobody_is_blamed_for_anything() {
    let events = [
        source(0, "tick"),
        activity(Irq, 1000, 2000, 0),
        Event::Gap(gap(1000, 2000)),
        finish(),
    ];
    let (budgets, summary) = explain(&facts(), &events);
    assert_eq!(parts(&budgets[0]), [(Share::Unexplained, None, 1000)]);
    assert_eq!(summary.clock_bound_ns, None);
    assert!(nulls(&summary).contains(&"host_irq"));
}

#[test]
fn a_gap_waits_for_its_watermark_and_its_anchor() {
    let mut explainer = Explainer::new(&facts());
    let mut came = |event: Event| {
        let mut count = 0;
        explainer.push(&event, &mut |_| count += 1);
        count
    };
    assert_eq!(came(anchor(0)), 0);
    assert_eq!(came(Event::Gap(gap(1000, 2000))), 0);
    assert_eq!(came(Event::Watermark(5000)), 0);
    assert_eq!(came(anchor(1999)), 0);
    assert_eq!(came(Event::Watermark(5001)), 0);
    assert_eq!(came(anchor(6000)), 0);
    assert_eq!(came(Event::Watermark(5002)), 1);
    assert_eq!(came(Event::Gap(gap(5500, 5600))), 0);
    assert_eq!(came(Event::Watermark(5599)), 0);
    assert_eq!(came(finish()), 1);
    assert_eq!(explainer.take_period()[0].gaps, 2);
    assert_eq!(explainer.take_period()[0].gaps, 0);
}

#[test]
fn defects_and_late_events_are_counted_and_explain_nothing() {
    let events = [
        anchor(0),
        anchor(10_000),
        Event::Loss(Loss {
            kind: LossKind::RingFull,
            count: 3,
        }),
        Event::Loss(Loss {
            kind: LossKind::RingFull,
            count: 7,
        }),
        activity(Irq, 1500, 1400, 0),
        Event::Gap(gap(2000, 1000)),
        anchor(5),
        Event::Watermark(3000),
        activity(Irq, 1000, 2999, 0),
        Event::Gap(gap(1000, 2000)),
    ];
    let (budgets, summary) = explain(&facts(), &events);
    assert_eq!(budgets, []);
    assert_eq!(summary.losses.get(LossKind::RingFull), 7);
    assert_eq!(summary.losses.get(LossKind::Unpaired), 1);
    assert_eq!(summary.losses.get(LossKind::Undecodable), 2);
    assert_eq!((summary.lost_events, summary.late_events), (10, 1));
    // A record was lost, so the residual is not attributed to the hardware.
    let shares_ns = &summary.cpus[0].shares_ns;
    let [hw, unexplained] = [Share::Hw, Share::Unexplained].map(|share| shares_ns[share]);
    assert_eq!((hw, unexplained), (Some(0), Some(1000)));
    assert_eq!((summary.complete, summary.finish_reason), (false, None));
}

#[test]
fn a_sleep_that_is_reported_long_after_the_wake_up_is_not_late() {
    let events = [
        anchor(0),
        anchor(20_000),
        // The thread is woken at 4000, but has its CPU again only at 8000.
        activity(Thread, 1000, 6000, 0),
        Event::Watermark(6000),
        activity(Thread, 6000, 8000, 0),
        activity(Blocked, 1500, 4000, 1),
        Event::Gap(gap(1000, 9000)),
        Event::Watermark(10_000),
        // The same sleep is late now.
        activity(Blocked, 1500, 4000, 1),
    ];
    let (budgets, summary) = explain(&facts(), &events);
    assert_eq!(summary.late_events, 1);
    let blocked = parts(&budgets[0])
        .into_iter()
        .find(|part| part.0 == Share::Blocked);
    assert_eq!(blocked.map(|part| part.2), Some(2500));
}

#[test]
fn the_summary_says_how_the_run_went() {
    let tally = CpuTally {
        cpu: 1,
        first_tsc: 1000,
        last_tsc: 101_000,
        steal_clock_ns: Some(40),
        light_exits: Some(2),
        ..CpuTally::default()
    };
    let mut facts = facts();
    facts.options.cpus = vec![1, 2];
    facts.options.stop_ns = Some(3000);
    let mut events = vec![anchor(0), anchor(200_000), Event::Tally(tally)];
    for (start, end) in [(2000, 3000), (4000, 7000), (8000, 12_000), (20_000, 20_500)] {
        events.push(Event::Gap(gap(start, end)));
    }
    events.push(Event::Gap(Gap {
        cpu: 9,
        ..gap(30_000, 31_500)
    }));
    events.push(Event::OwnCost(OwnCost {
        bpf_runs: 5,
        bpf_ns: 1000,
    }));
    events.push(Event::Finish(Finish {
        reason: FinishReason::Stop,
        mono_ns: 101_000,
    }));
    let (_, summary) = explain(&facts, &events);

    let numbers: Vec<u32> = summary.cpus.iter().map(|cpu| cpu.cpu).collect();
    assert_eq!(numbers, [1, 2, 9]);
    let first = &summary.cpus[0];
    assert_eq!(
        (first.runtime_ns, first.gaps, first.noise_ns),
        (Some(100_000), 4, 8500)
    );
    assert_eq!(
        (first.noise_percent, first.cpu_available_percent),
        (Some(8.5), Some(91.5))
    );
    assert_eq!((first.exits.light, first.exits.heavy), (Some(2), None));
    assert_eq!(first.percentiles_ns.max, Some(4000));
    assert_eq!(first.percentiles_ns.p50, Some(1000));
    let idle = &summary.cpus[1];
    assert_eq!(
        (idle.runtime_ns, idle.gaps, idle.max_gap_ns),
        (None, 0, None)
    );
    let worst: Vec<(u32, u64, u64)> = summary
        .worst
        .iter()
        .map(|gap| (gap.cpu, gap.at_ns, gap.dur_ns))
        .collect();
    assert_eq!(worst, [(1, 7000, 4000), (1, 3000, 3000), (9, 29_000, 1500)]);
    assert_eq!(summary.stopped_by.as_ref().map(|gap| gap.at_ns), Some(3000));
    assert_eq!(summary.own_cost.percent_of_runtime, Some(1.0));
    assert_eq!(summary.residual_percent_of_noise, Some(100.0));
    assert_eq!(summary.finish_reason, Some(FinishReason::Stop));
}

#[test]
fn a_period_in_unattributed_gaps_is_reported() {
    let mut events = vec![source(0, "tick"), anchor(0), anchor(2_000_000_000)];
    for cycle in 1..1000 {
        let start = cycle * 1_000_000;
        events.push(Event::Gap(gap(start, start + 3000)));
    }
    // A gap with an activity is not searched, but its rest counts as residual.
    events.push(activity(Irq, 1_500_000_000, 1_500_001_000, 0));
    events.push(Event::Gap(gap(1_500_000_000, 1_500_004_000)));
    events.push(finish());
    let (_, summary) = explain(&in_a_machine(), &events);
    let period = &summary.periodic[0];
    assert_eq!(
        (period.cpu, period.period_ns, period.gaps),
        (1, 1_000_000, 999)
    );
    assert_eq!((period.jitter_ns, period.mean_gap_ns), (0, 3000));
    assert_eq!(period.share_of_residual, 0.999);
    assert_eq!(
        (
            summary.cpus[0].bare_gaps,
            summary.cpus[0].bare_gaps_searched
        ),
        (999, 999)
    );
}

#[test]
fn names_are_looked_up() {
    let mut explainer = Explainer::new(&facts());
    explainer.push(&source(0, "NET_RX:3"), &mut |_| {});
    assert_eq!(explainer.source_name(SourceId(0)), "NET_RX:3");
    assert_eq!(explainer.source_name(SourceId(1)), "undefined");
}

/// The workload may read its clock between the drain of its gaps and its tally. The tally is then
/// later than a gap that the next drain brings.
#[test]
fn a_tally_ahead_of_its_gaps_forgets_nothing() {
    let tally = CpuTally {
        cpu: 1,
        first_tsc: 0,
        last_tsc: 2500,
        ..CpuTally::default()
    };
    let events = [
        source(0, "tick"),
        anchor(0),
        anchor(10_000),
        activity(Irq, 1000, 2390, 0),
        Event::Tally(tally),
        Event::Watermark(2400),
        Event::Gap(gap(1000, 2450)),
        finish(),
    ];
    let (budgets, summary) = explain(&facts(), &events);
    assert_eq!(parts(&budgets[0])[0], (Share::HostIrq, Some(0), 1390));
    assert_eq!(summary.late_events, 0);
}

#[test]
fn a_waiting_gap_keeps_its_activities() {
    let tally = CpuTally {
        cpu: 1,
        first_tsc: 0,
        last_tsc: 2500,
        ..CpuTally::default()
    };
    let events = [
        source(0, "tick"),
        anchor(0),
        anchor(10_000),
        activity(Irq, 1000, 1200, 0),
        Event::Gap(gap(1000, 2000)),
        Event::Tally(tally),
        Event::Watermark(1500),
        Event::Watermark(1600),
        Event::Watermark(3000),
    ];
    let (budgets, _) = explain(&facts(), &events);
    assert_eq!(parts(&budgets[0])[1], (Share::HostIrq, Some(0), 200));
}

#[test]
fn noise_beyond_what_a_u64_holds_is_a_defect() {
    let forever = Event::Gap(gap(0, u64::MAX));
    let events = [
        anchor(0),
        anchor(u64::MAX),
        forever.clone(),
        forever,
        finish(),
    ];
    let (budgets, summary) = explain(&facts(), &events);
    assert_eq!(budgets.len(), 1);
    assert_eq!(summary.cpus[0].noise_ns, u64::MAX);
    assert_eq!(summary.losses.get(LossKind::Undecodable), 1);
}
