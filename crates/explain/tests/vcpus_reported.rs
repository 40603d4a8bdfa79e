//! Tests the reports on the exits of vCPUs, and the order of these reports: trace, timelines,
//! filters, losses.

use crate::streams::vcpus::{
    CPUID, ExitScene, HLT, INTR, IO, exit_of, explain, facts, interrupted, traced,
};
use vmnoise_events::ActivityKind::Irq;
use vmnoise_events::VcpuIntervalKind::{Halted, Vmm};
use vmnoise_events::*;
use vmnoise_explain::ExitExplainer;

#[test]
fn the_trace_reports_the_hosts_lines_and_then_the_exit() {
    let scene = interrupted();
    let mut explainer = ExitExplainer::with_trace(&facts());
    for event in scene.events() {
        explainer.push(&event, &mut |_| {});
    }
    let trace = explainer.take_trace();
    assert_eq!(trace.len(), 1);
    let lines: Vec<(&str, u64, u64)> = trace[0]
        .noise
        .iter()
        .map(|noise| (&*noise.name, noise.start_mono_ns, noise.net_ns))
        .collect();
    assert_eq!(
        lines,
        [
            ("local_timer:236", 101_491, 13_196),
            ("TIMER:1", 115_000, 1_000),
            ("irq_work:246", 120_000, 411),
            ("rcuc/0:20", 119_000, 8_171),
        ]
    );
    let exit = &trace[0].exit;
    assert_eq!((exit.overhead_ns(), exit.noise_ns()), (Some(9_860), 32_638));
    let reported: u64 = lines.iter().map(|(_, _, ns)| ns).sum();
    assert_eq!(reported + 9_860, exit.exit.dur_ns());
    assert_eq!(explainer.take_trace(), []);
}

#[test]
fn the_timeline_shows_the_pieces_in_their_order() {
    let (_, run) = explain(&facts(), &interrupted().events());
    let longest = &run.longest[0];
    let pieces: Vec<(Share, Option<&str>, u64)> = longest
        .pieces
        .iter()
        .map(|piece| (piece.share, piece.name.as_deref(), piece.dur_ns()))
        .collect();
    assert_eq!(
        pieces,
        [
            (Share::Kvm, None, 1_491),
            (Share::HostIrq, Some("local_timer:236"), 13_196),
            (Share::Kvm, None, 313),
            (Share::HostSoftirq, Some("TIMER:1"), 1_000),
            (Share::Kvm, None, 3_000),
            (Share::Preempted, Some("rcuc/0:20"), 1_000),
            (Share::HostIrq, Some("irq_work:246"), 411),
            (Share::Preempted, Some("rcuc/0:20"), 7_171),
            (Share::Kvm, None, 5_056),
        ]
    );
    assert_eq!(longest.misplaced_ns, 0);
    let (trace, _) = traced(&interrupted().events());
    assert_eq!(trace[0].pieces, longest.pieces);
}

#[test]
fn an_order_that_the_sums_contradict_is_not_reported() {
    let mut events = interrupted().events();
    events.retain(|event| !matches!(event, Event::VcpuInterval(_)));
    assert_eq!(traced(&events).0[0].pieces, []);
}

#[test]
fn only_what_was_asked_for_is_reported_and_totals_stay_whole() {
    let mut events = interrupted().events();
    events.insert(
        events.len() - 1,
        Event::VcpuTotals(VcpuTotals {
            vcpu: VcpuId(0),
            first_mono_ns: 1_000,
            last_mono_ns: 201_000,
            exits: 5,
            heavy: 2,
            split: ShareMap::from([(Share::Kvm, 70_000)]),
            unseen_ns: 0,
            worst: None,
            reasons: Vec::new(),
        }),
    );
    let reported = |change: &dyn Fn(&mut RunOptions)| {
        let mut facts = facts();
        change(&mut facts.options);
        let (budgets, run) = explain(&facts, &events);
        assert_eq!(
            (run.reported, run.longest.len()),
            (budgets.len() as u64, budgets.len())
        );
        (budgets.len(), run.exits.vms.len())
    };
    assert_eq!(reported(&|options| options.threshold_ns = 32_638), (1, 1));
    assert_eq!(reported(&|options| options.threshold_ns = 32_639), (0, 1));
    let filter = |vm: Option<&str>, vcpus: Option<Vec<u32>>, reasons: &[&str]| ExitFilter {
        vm: vm.map(Into::into),
        vcpus,
        reasons: reasons.iter().map(|&name| name.into()).collect(),
    };
    for (filter, expected) in [
        (filter(Some("web"), Some(vec![0]), &["interrupt"]), (1, 1)),
        (filter(None, None, &["cpuid"]), (0, 1)),
        (filter(None, Some(vec![1]), &[]), (0, 0)),
        (filter(Some("db"), None, &[]), (0, 0)),
    ] {
        let reported = reported(&|options| options.exits = Some(filter.clone()));
        assert_eq!(reported, expected, "{filter:?}");
    }
    let (_, run) = explain(&facts(), &events);
    let vcpu = &run.exits.vms[0].vcpus[0];
    assert_eq!((vcpu.exits, vcpu.time_ns.guest), (5, 130_000));
}

#[test]
fn an_exit_waits_for_what_may_still_lie_under_it() {
    let scene = interrupted();
    let mut explainer = ExitExplainer::new(&facts());
    let mut reported = 0;
    for event in scene.events() {
        let event = match event {
            // An interrupt during the exit may end up to 10 ms after the exit.
            Event::Watermark(_) => Event::Watermark(scene.end_ns + 9_999_999),
            event => event,
        };
        explainer.push(&event, &mut |_| reported += 1);
    }
    assert_eq!(reported, 0);
    explainer.push(&Event::Watermark(scene.end_ns + 10_000_000), &mut |_| {
        reported += 1
    });
    assert_eq!(reported, 1);
}

#[test]
fn the_longest_are_those_with_the_most_noise() {
    let light = ExitScene::new(CPUID, 1_000, 3_000);
    let halt = ExitScene::new(HLT, 10_000, 900_000).kept(Halted, 10_500, 899_000);
    let heavy = ExitScene::new(IO, 1_000_000, 1_004_000).kept(Vmm, 1_000_500, 1_003_000);
    let long = ExitScene::new(INTR, 2_000_000, 2_008_000);
    let mut events = light.events();
    for scene in [halt, heavy, long] {
        events.extend(scene.events().into_iter().skip(1));
    }
    let (_, run) = explain(&facts(), &events);
    let starts: Vec<u64> = run
        .longest
        .iter()
        .map(|longest| longest.exit.exit.start_mono_ns)
        .collect();
    assert_eq!(starts, [2_000_000, 1_000_000, 1_000]);
    assert!(!run.complete);
}

#[test]
fn defects_are_counted_and_losses_reported() {
    let scene = ExitScene::new(CPUID, 1_000, 2_000);
    let exit = scene.exit();
    let backwards = Exit {
        end_mono_ns: 0,
        ..exit
    };
    let does_not_add_up = Exit {
        split: ShareMap::from([(Share::HostIrq, 900), (Share::Preempted, 300)]),
        ..exit
    };
    let mut events = vec![exit_of(0, exit)];
    events.extend(scene.events());
    events.extend([
        exit_of(0, backwards),
        exit_of(0, does_not_add_up),
        Event::Gap(crate::streams::gap(1, 2)),
        Event::Loss(Loss {
            kind: LossKind::VcpusFull,
            count: 3,
        }),
        crate::streams::activity(Irq, 1_000, 1_100, 0),
        Event::Anchor(Anchor {
            before_tsc: 1,
            mono_ns: 1,
            after_tsc: 1,
        }),
        crate::streams::finish(),
    ]);
    let (budgets, run) = explain(&facts(), &events);
    assert_eq!(budgets.len(), 2);
    let parts: Vec<_> = budgets[1]
        .parts
        .iter()
        .map(|part| (part.share, part.ns))
        .collect();
    assert_eq!(parts, [(Share::HostIrq, 700), (Share::Preempted, 300)]);
    assert_eq!(run.losses.get(LossKind::Undecodable), 3);
    assert_eq!(run.losses.get(LossKind::Unpaired), 1);
    assert_eq!(run.losses.get(LossKind::VcpusFull), 3);
    // The two late events are the activity, and the exit that does not add up.
    assert_eq!((run.lost_events, run.late_events), (7, 2));
    assert_eq!(run.finish_reason, Some(FinishReason::Duration));
}
