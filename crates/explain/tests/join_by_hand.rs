//! Tests joins that are small enough to be added up by hand.

use crate::streams::by_hand::{at, gap, own, parts, preempted, run, run_with};
use crate::streams::joined_scenes::{guest_stream, host_stream};
use crate::streams::joins::{ALL, BOUNDS, join, obeys_the_law, plain_of_bound};
use crate::streams::vcpus::{ExitScene, HLT, INTR};
use vmnoise_events::*;
use vmnoise_explain::VmSide;

use ActivityKind::{Irq, Softirq, Thread, Throttled};

#[test]
fn a_guests_interrupt_is_net_of_what_its_host_did_inside() {
    let run = run(
        &[gap(0, 10_000)],
        &[own(Irq, 1_000, 9_000, 0)],
        vec![preempted()],
    );
    let expected = [
        (Share::Preempted, Some("hog:77"), 4_000),
        (Share::Irq, Some("g0"), 2_000),
        (Share::Unexplained, None, 2_000),
        (Share::Kvm, Some("interrupt"), 1_500),
        (Share::HostIrq, Some("local_timer:236"), 500),
    ];
    assert_eq!(parts(&run, 0), expected);
    let tree = &run.trees[0];
    assert!(tree.witnessed);
    assert_eq!(
        (
            tree.residual,
            tree.stretches[0].residual_ns,
            tree.stretches[0].steal_ns
        ),
        (Share::Unexplained, 2_000, 0)
    );
    let [exit] = &tree.stretches[0].exits[..] else {
        panic!("{tree:?}")
    };
    assert_eq!(
        (exit.reason.as_str(), exit.after_ns, exit.dur_ns),
        ("interrupt", 2_000, 6_000)
    );
    assert_eq!((exit.heavy, exit.exit_cpu, exit.entry_cpu), (false, 1, 1));
    assert_eq!(exit.parts[0].host_cpu, Some(1));
    assert_eq!(exit.parts[1].host_cpu, None, "KVM ran where the vCPU did");

    let ranked = &run.culprits[0];
    assert_eq!(
        (ranked.side, ranked.cpu, ranked.percent),
        (VmSide::Host, Some(1), 40.0)
    );
    assert_eq!(ranked.name.as_deref(), Some("hog:77"));
    let guest = run
        .culprits
        .iter()
        .find(|it| it.side == VmSide::Guest)
        .unwrap();
    assert_eq!((guest.name.as_deref(), guest.cpu), (Some("g0"), Some(0)));

    let columns = run.summary.cpus[0].guest_columns;
    assert_eq!(columns.steal_ns, Some(4_000));
    assert_eq!(columns.virt_ns, Some(1_500 + 500 + 2_000));
    assert_eq!(columns.hw_noise_ns, Some(0));
    assert_eq!(
        (columns.light_exits, columns.heavy_exits),
        (Some(1), Some(0))
    );
    let sum = run.thesis.unwrap();
    assert_eq!((sum.exits, sum.length_ns), (1, 6_000));
    assert_eq!((sum.thesis_ns, sum.ours_ns), (6_000, 6_000));
    assert_eq!(run.joined.unbounded_kvm_ns, 1_500);
}

#[test]
fn what_the_host_places_is_no_steal_and_taken_off_nothing_twice() {
    let with = |irq_steal, gap_steal| {
        let irq = Activity {
            steal_ns: irq_steal,
            ..own(Irq, 1_000, 9_000, 0)
        };
        let gap = Gap {
            steal_ns: gap_steal,
            ..gap(0, 10_000)
        };
        let run = run(&[gap], &[irq], vec![preempted()]);
        let shares = run.summary.cpus[0].shares_ns;
        let of = |share| shares[share].unwrap();
        (of(Share::Steal), of(Share::Irq), of(Share::Unexplained))
    };
    assert_eq!(with(0, 0), (0, 2_000, 2_000));
    assert_eq!(with(4_000, 4_000), (0, 2_000, 2_000));
    assert_eq!(with(0, 4_300), (300, 2_000, 1_700));
    assert_eq!(with(4_300, 4_300), (300, 1_700, 2_000));
    assert_eq!(with(4_300, 4_500), (500, 1_700, 1_800));
}

/// The exit takes 6 us of the gap, which is too short for the clock error.
#[test]
fn what_the_clock_is_not_sure_of_is_taken_off_nothing_twice_either() {
    let (guest_facts, host_facts, pairs, _) = plain_of_bound(BOUNDS - 1);
    let irq = Activity {
        steal_ns: 4_000,
        ..own(Irq, 1_000, 9_000, 0)
    };
    let gap = Gap {
        steal_ns: 4_000,
        ..gap(0, 10_000)
    };
    let guest = guest_stream(&[gap], &[irq], &[]);
    let host = host_stream(&at(vec![preempted()]), &[]);
    let run = join((&guest_facts, &guest), (&host_facts, &host), pairs, ALL);
    obeys_the_law(&run);
    let shares = run.summary.cpus[0].shares_ns;
    let of = |share| shares[share].unwrap();
    let reported = (of(Share::Steal), of(Share::Irq), of(Share::Unexplained));
    assert_eq!(reported, (4_000, 2_000, 4_000));
    assert_eq!(
        (run.joined.unsure.exits, run.joined.unbounded_kvm_ns),
        (1, 0)
    );
}

#[test]
fn an_exit_whose_records_were_lost_keeps_its_amounts() {
    let scenes = at(vec![preempted()]);
    let mut host = host_stream(&scenes, &[]);
    host.retain(|event| !matches!(event, Event::Activity(_) | Event::VcpuInterval(_)));
    let guest = guest_stream(&[gap(0, 10_000)], &[], &[]);
    let run = run_with(|_, _| {}, &guest, &host);
    let expected = [
        (Share::Preempted, None, 4_000),
        (Share::Unexplained, None, 4_000),
        (Share::Kvm, Some("interrupt"), 1_500),
        (Share::HostIrq, None, 500),
    ];
    assert_eq!(parts(&run, 0), expected);
}

#[test]
fn a_sleep_that_the_guest_asked_for_is_its_own() {
    let halt =
        || ExitScene::new(HLT, 1_000, 9_000).moved(VcpuIntervalKind::Halted, 1_500, 8_000, 1, 1);
    let throttled = [own(Throttled, 500, 6_000, 0)];
    let run = run(&[gap(0, 10_000)], &throttled, vec![halt()]);
    let expected = [
        (Share::Throttled, Some("g0"), 500 + 4_500),
        (Share::Halted, None, 2_000),
        (Share::Kvm, Some("hlt"), 1_500),
        (Share::Unexplained, None, 1_500),
    ];
    assert_eq!(parts(&run, 0), expected);
    assert_eq!(run.trees[0].stretches[0].exits[0].dur_ns, 3_500);
}

#[test]
fn turns_of_a_task_are_counted_and_not_its_pieces() {
    let exit = ExitScene::new(INTR, 0, 9_000)
        .kept(VcpuIntervalKind::Waiting, 1_000, 8_000)
        .host(1, Thread, "hog:77", 1_000, 4_000)
        .host(1, Irq, "local_timer:236", 2_000, 2_500)
        .host(1, Softirq, "TIMER:1", 2_500, 2_600)
        .host(1, Thread, "rcuc/1:20", 4_000, 4_500)
        .host(1, Thread, "hog:77", 4_500, 8_000);
    let run = run(&[gap(0, 9_000)], &[], vec![exit]);
    let exit = &run.trees[0].stretches[0].exits[0];
    let hog = exit
        .parts
        .iter()
        .find(|it| it.source.as_deref() == Some("hog:77"));
    let hog = hog.unwrap();
    assert_eq!((hog.ns, hog.count), (3_000 - 600 + 3_500, 2));
}

#[test]
fn a_microvm_that_was_traced_by_itself_is_booked_once() {
    let host = host_stream(&at(vec![preempted()]), &[]);
    // The microVM's own recording has the same events a little later.
    let own = [
        own(ActivityKind::Exit, 2_040, 8_040, 1),
        own(Thread, 3_040, 7_040, 2),
    ];
    let guest = guest_stream(&[gap(0, 10_000)], &own, &[]);
    let microvm = |guest: &mut RunFacts, _: &mut RunFacts| {
        guest.workload = MeasuringCommand::Microvm;
        guest.witnesses.activity_steal = false;
    };
    let run = run_with(microvm, &guest, &host);
    let expected = [
        (Share::Preempted, Some("hog:77"), 4_000),
        (Share::Unexplained, None, 3_960),
        (Share::Kvm, Some("interrupt"), 1_500),
        (Share::HostIrq, Some("local_timer:236"), 500),
        (Share::Kvm, Some("g1"), 40),
    ];
    assert_eq!(parts(&run, 0), expected);
}
