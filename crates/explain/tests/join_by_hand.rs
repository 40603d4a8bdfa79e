//! Joins small enough to be added up by hand.

mod streams;

use streams::joined_scenes::{AT, guest_stream, host_stream};
use streams::joins::{ALL, BOUNDS, join, obeys_the_law, plain, plain_of_bound};
use streams::vcpus::{CPUID, HLT, INTR, IO, Scene};
use vmnoise_events::*;
use vmnoise_explain::{JoinedRun, JoinedTotals, Side};

use ActivityKind::{Irq, Softirq, Thread, Throttled};

fn gap(from: u64, to: u64) -> Gap {
    Gap {
        cpu: 0,
        ..streams::gap(AT + from, AT + to)
    }
}

/// An activity of the guest's kernel; sources 0 to 2 are `g0` to `g2`.
fn own(kind: ActivityKind, from: u64, to: u64, source: u32) -> Activity {
    Activity {
        cpu: 0,
        kind,
        start_mono_ns: AT + from,
        end_mono_ns: AT + to,
        source: SourceId(source),
        steal_ns: 0,
    }
}

/// These happened one after the other on one host, at [`AT`].
fn at(scenes: Vec<Scene>) -> Vec<Scene> {
    let mut names: Vec<String> = Vec::new();
    let mut scenes: Vec<Scene> = scenes.into_iter().map(|it| it.later(0, AT)).collect();
    for scene in &mut scenes {
        let of_scene = std::mem::take(&mut scene.names);
        let mut id_of = |id: SourceId| {
            let name = &of_scene[id.0 as usize];
            let known = names.iter().position(|known| known == name);
            let place = known.unwrap_or_else(|| {
                names.push(name.clone());
                names.len() - 1
            });
            SourceId(place as u32)
        };
        let of_activities = scene.activities.iter_mut().map(|it| &mut it.source);
        let of_kept = scene.intervals.iter_mut().flat_map(|it| &mut it.source);
        of_activities.chain(of_kept).for_each(|id| *id = id_of(*id));
    }
    let host: Vec<Activity> = scenes.iter().flat_map(|it| it.activities.clone()).collect();
    for scene in &mut scenes {
        scene.names.clone_from(&names);
        scene.activities.clone_from(&host);
    }
    scenes
}

/// The timer interrupts the guest, and a task of the host runs before it goes on.
fn preempted() -> Scene {
    Scene::new(INTR, 2_000, 8_000)
        .host(1, Irq, "local_timer:236", 2_000, 2_500)
        .kept(VcpuIntervalKind::Waiting, 3_000, 7_000)
        .host(1, Thread, "hog:77", 3_000, 7_000)
}

fn run_with(
    change: impl FnOnce(&mut RunFacts, &mut RunFacts),
    guest: &[Event],
    host: &[Event],
) -> JoinedRun {
    let (mut guest_facts, mut host_facts, pairs) = plain();
    change(&mut guest_facts, &mut host_facts);
    let run = join((&guest_facts, guest), (&host_facts, host), pairs, ALL);
    obeys_the_law(&run);
    run
}

fn run(gaps: &[Gap], activities: &[Activity], scenes: Vec<Scene>) -> JoinedRun {
    let guest = guest_stream(gaps, activities, &[]);
    run_with(|_, _| {}, &guest, &host_stream(&at(scenes), &[]))
}

fn parts(run: &JoinedRun, place: usize) -> Vec<(Share, Option<&str>, u64)> {
    let parts = run.trees[place].gap.parts.iter();
    parts
        .map(|it| (it.share, it.source.as_deref(), it.ns))
        .collect()
}

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
        (tree.residual, tree.residual_ns, tree.steal_ns),
        (Share::Unexplained, 2_000, 0)
    );
    let [exit] = &tree.exits[..] else {
        panic!("{tree:?}")
    };
    assert_eq!(
        (exit.reason.as_str(), exit.after_ns, exit.dur_ns),
        ("interrupt", 2_000, 6_000)
    );
    assert_eq!((exit.heavy, exit.exit_cpu, exit.entry_cpu), (false, 1, 1));
    assert_eq!(exit.parts[0].cpu, Some(1));
    assert_eq!(exit.parts[1].cpu, None, "KVM ran where the vCPU did");

    let ranked = &run.culprits[0];
    assert_eq!(
        (ranked.side, ranked.cpu, ranked.percent),
        (Side::Host, Some(1), 40.0)
    );
    assert_eq!(ranked.name.as_deref(), Some("hog:77"));
    let guest = run
        .culprits
        .iter()
        .find(|it| it.side == Side::Guest)
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
        let of = |share| shares.get(share).unwrap();
        (of(Share::Steal), of(Share::Irq), of(Share::Unexplained))
    };
    assert_eq!(with(0, 0), (0, 2_000, 2_000));
    assert_eq!(with(4_000, 4_000), (0, 2_000, 2_000));
    assert_eq!(with(0, 4_300), (300, 2_000, 1_700));
    assert_eq!(with(4_300, 4_300), (300, 1_700, 2_000));
    assert_eq!(with(4_300, 4_500), (500, 1_700, 1_800));
}

/// The exit has 6 us of the gap, and its clock is not sure of so little.
#[test]
fn what_the_clock_is_not_sure_of_is_taken_off_nothing_twice_either() {
    let (guest_facts, host_facts, pairs) = plain_of_bound(BOUNDS - 1);
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
    let of = |share| shares.get(share).unwrap();
    let told = (of(Share::Steal), of(Share::Irq), of(Share::Unexplained));
    assert_eq!(told, (4_000, 2_000, 4_000));
    assert_eq!(
        (run.joined.unsure.exits, run.joined.unbounded_kvm_ns),
        (1, 0)
    );
}

/// What is KVM's is not known there, so nobody is said to have it.
#[test]
fn the_thesis_sum_claims_nothing_where_a_witness_is_missing() {
    let guest = guest_stream(&[gap(0, 10_000)], &[], &[]);
    let host = host_stream(&at(vec![preempted()]), &[]);
    let run = run_with(|_, host| host.witnesses.nmi = false, &guest, &host);
    assert!(run.thesis.is_none(), "{:?}", run.thesis);
}

#[test]
fn a_residual_is_the_hardwares_only_where_nobody_can_be_missing() {
    type Change = fn(&mut RunFacts, &mut RunFacts);
    let residual = |change: Change, gap: Gap, scenes: Vec<Scene>| {
        let guest = guest_stream(&[gap], &[], &[]);
        let run = run_with(change, &guest, &host_stream(&at(scenes), &[]));
        run.trees[0].residual
    };
    let nothing: Change = |_, _| {};
    let changes: [(Change, Share); 13] = [
        (nothing, Share::Hw),
        (
            |_, host| host.host.hypervisor = Some("KVM".to_string().into()),
            Share::HvOrHw,
        ),
        (|_, host| host.options.threshold_ns = 5_000, Share::HvOrHw),
        (|_, host| host.witnesses.irq = false, Share::HvOrHw),
        (|_, host| host.witnesses.softirq = false, Share::HvOrHw),
        (|_, host| host.witnesses.nmi = false, Share::HvOrHw),
        (|_, host| host.witnesses.sched = false, Share::HvOrHw),
        (|_, host| host.witnesses.kvm_run = false, Share::HvOrHw),
        (|_, host| host.witnesses.kvm_exit = false, Share::HvOrHw),
        (
            |_, host| host.host.posted_interrupts = Some(true),
            Share::HvOrHw,
        ),
        (
            |_, host| host.options.exits.as_mut().unwrap().reasons = vec!["io".to_string().into()],
            Share::HvOrHw,
        ),
        (|guest, _| guest.witnesses.sched = false, Share::HvOrHw),
        (|guest, _| guest.witnesses.nmi = false, Share::HvOrHw),
    ];
    for (change, share) in changes {
        assert_eq!(residual(change, gap(0, 900), vec![]), share);
    }
    let exit = || vec![Scene::new(CPUID, 100, 400)];
    assert_eq!(residual(nothing, gap(0, 900), exit()), Share::Unexplained);
    // The host had not begun to record, and was over already.
    for far in [-890_000_000_i64, 1_100_000_000] {
        let at = |tsc: u64| tsc.saturating_add_signed(far);
        let far = Gap {
            start_tsc: at(AT),
            end_tsc: at(AT + 900),
            ..gap(0, 0)
        };
        let guest = guest_stream(&[far], &[], &[]);
        let run = run_with(|_, _| {}, &guest, &host_stream(&at_once(), &[]));
        assert_eq!(
            run.joined.witnessed,
            u64::from(far.start_tsc > 100_000_000 && far.end_tsc < 2_100_000_000)
        );
    }
}

fn at_once() -> Vec<Scene> {
    at(vec![Scene::new(CPUID, 0, 100)])
}

#[test]
fn where_records_were_lost_the_hardware_is_not_blamed() {
    let lost = Event::Loss(Loss {
        kind: LossKind::RingFull,
        count: 1,
    });
    // As a recorder tells it: what was lost comes before the watermark that passes it, which is
    // the reading of the clock before; so the record may be of a moment later, until the next.
    let lost = [
        lost,
        Event::Watermark(AT + 1_000),
        Event::Watermark(AT + 1_900),
    ];
    let mut host = host_stream(&[], &[]);
    host.splice(1..1, lost.clone());
    let gaps = [gap(0, 900), gap(2_000, 2_800)];
    let guest = guest_stream(&gaps, &[], &[]);
    let residuals = |run: &JoinedRun| [run.trees[0].residual, run.trees[1].residual];
    let of_host = run_with(|_, _| {}, &guest, &host);
    assert_eq!(residuals(&of_host), [Share::HvOrHw, Share::Hw]);
    assert_eq!(
        (of_host.host.lost_events, of_host.summary.lost_events),
        (1, 0)
    );

    let mut guest = guest;
    guest.splice(4..4, lost);
    let of_guest = run_with(|_, _| {}, &guest, &host_stream(&[], &[]));
    assert_eq!(residuals(&of_guest), [Share::HvOrHw, Share::Hw]);
}

#[test]
fn what_is_lost_a_moment_after_the_watermark_is_in_doubt_too() {
    // It was counted when the clock was read, but the gap comes after that reading.
    let lost = Event::Loss(Loss {
        kind: LossKind::RingFull,
        count: 1,
    });
    let told = [
        lost,
        Event::Watermark(AT - 100),
        Event::Watermark(AT + 1_900),
    ];
    let gaps = [gap(0, 900), gap(2_000, 2_800)];
    let mut host = host_stream(&[], &[]);
    host.splice(1..1, told);
    let run = run_with(|_, _| {}, &guest_stream(&gaps, &[], &[]), &host);
    assert_eq!(run.trees[0].residual, Share::HvOrHw);
    assert_eq!(run.trees[1].residual, Share::Hw);
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
fn kvm_has_no_more_of_an_exit_than_without_the_hosts_work() {
    let mut scenes: Vec<Scene> = (0..150)
        .map(|n| Scene::new(CPUID, n * 3_000, n * 3_000 + 1_000))
        .collect();
    let long = 600_000;
    let exit =
        Scene::new(CPUID, long, long + 6_000).host(1, Irq, "eth0:30", long + 100, long + 1_100);
    scenes.push(exit);
    let run = run(&[gap(long - 100, long + 6_200)], &[], scenes);
    let expected = [
        (Share::Unexplained, None, 4_000 + 300),
        (Share::HostIrq, Some("eth0:30"), 1_000),
        (Share::Kvm, Some("cpuid"), 1_000),
    ];
    assert_eq!(parts(&run, 0), expected);
    assert_eq!(
        (run.trees[0].residual_ns, run.trees[0].exits[0].dur_ns),
        (300, 6_000)
    );
    let sum = run.thesis.unwrap();
    assert_eq!(
        (sum.length_ns, sum.ours_ns, sum.thesis_ns),
        (6_000, 2_000, 6_000)
    );
    assert_eq!(
        (run.joined.unexplained_ns, run.joined.unbounded_kvm_ns),
        (4_300, 0)
    );
}

#[test]
fn an_exit_for_an_interrupt_is_held_against_those_with_nothing_but_one() {
    let timer = |start| {
        let exit = Scene::new(INTR, start, start + 1_500);
        exit.host(1, Irq, "local_timer:236", start + 100, start + 600)
    };
    let mut scenes: Vec<Scene> = (0..150).map(|n| timer(n * 3_000)).collect();
    let long = 600_000;
    let two = Scene::new(INTR, long, long + 6_000)
        .host(1, Irq, "local_timer:236", long + 100, long + 600)
        .host(1, Irq, "eth0:30", long + 1_000, long + 1_500);
    scenes.push(two);
    let run = run(&[gap(long, long + 6_000)], &[], scenes);
    let expected = [
        (Share::Unexplained, None, 4_000),
        (Share::Kvm, Some("interrupt"), 1_000),
        (Share::HostIrq, Some("local_timer:236"), 500),
        (Share::HostIrq, Some("eth0:30"), 500),
    ];
    assert_eq!(parts(&run, 0), expected);
    assert_eq!(run.joined.unbounded_kvm_ns, 0);
}

/// 200 exits for an interrupt with nothing else in them, then one in which KVM has 5 ms.
#[test]
fn an_exit_with_one_interrupt_is_held_against_its_like() {
    let timer = |start, end| {
        let exit = Scene::new(INTR, start, end);
        exit.host(1, Irq, "local_timer:236", start + 100, start + 600)
    };
    let mut scenes: Vec<Scene> = (0..200)
        .map(|n| timer(n * 3_000, n * 3_000 + 2_500))
        .collect();
    let long = 900_000;
    scenes.push(timer(long, long + 5_000_500));
    let run = run(&[gap(long, long + 5_000_500)], &[], scenes);
    let expected = [
        (Share::Unexplained, None, 4_998_000),
        (Share::Kvm, Some("interrupt"), 2_000),
        (Share::HostIrq, Some("local_timer:236"), 500),
    ];
    assert_eq!(parts(&run, 0), expected);
    let JoinedTotals {
        unexplained_ns,
        unbounded_kvm_ns,
        ..
    } = run.joined;
    assert_eq!((unexplained_ns, unbounded_kvm_ns), (4_998_000, 0));
    assert_eq!(run.summary.cpus[0].unbounded_kvm_ns, Some(0));
}

#[test]
fn an_exit_that_comes_after_its_gap_was_explained_is_late() {
    let scenes = || at(vec![Scene::new(CPUID, 100, 900)]);
    let gaps = [gap(0, 1_000), gap(100_000_000, 100_001_000)];
    let guest = guest_stream(&gaps, &[], &[]);
    let in_order = host_stream(&scenes(), &[]);
    assert_eq!(run_with(|_, _| {}, &guest, &in_order).host.late_events, 0);
    let mut late = in_order;
    let exit = late
        .iter()
        .position(|event| matches!(event, Event::Exit(_)));
    let exit = late.remove(exit.unwrap());
    // Before the last watermark.
    let end = late.len() - 3;
    late.splice(end..end, [Event::Watermark(AT + 50_000_000), exit]);
    assert_eq!(run_with(|_, _| {}, &guest, &late).host.late_events, 1);
}

#[test]
fn an_exit_counts_once_and_only_where_each_is_told() {
    let exits = || {
        let io = Scene::new(IO, 1_000, 5_000).kept(VcpuIntervalKind::Vmm, 2_000, 4_000);
        vec![io, Scene::new(CPUID, 8_000, 9_000)]
    };
    let gaps = [gap(0, 2_500), gap(3_000, 6_000), gap(7_500, 9_500)];
    let guest = guest_stream(&gaps, &[], &[]);
    let with = |threshold_ns| {
        let change =
            |_: &mut RunFacts, host: &mut RunFacts| host.options.threshold_ns = threshold_ns;
        let run = run_with(change, &guest, &host_stream(&at(exits()), &[]));
        let columns = run.summary.cpus[0].guest_columns;
        (run.joined.joined, columns.light_exits, columns.heavy_exits)
    };
    assert_eq!(with(0), (3, Some(1), Some(1)));
    assert_eq!(with(2_000), (2, None, None));
}

#[test]
fn a_sleep_that_the_guest_asked_for_is_its_own() {
    let halt = || Scene::new(HLT, 1_000, 9_000).moved(VcpuIntervalKind::Halted, 1_500, 8_000, 1, 1);
    let throttled = [own(Throttled, 500, 6_000, 0)];
    let run = run(&[gap(0, 10_000)], &throttled, vec![halt()]);
    let expected = [
        (Share::Throttled, Some("g0"), 500 + 4_500),
        (Share::Halted, None, 2_000),
        (Share::Kvm, Some("hlt"), 1_500),
        (Share::Unexplained, None, 1_500),
    ];
    assert_eq!(parts(&run, 0), expected);
    assert_eq!(run.trees[0].exits[0].dur_ns, 3_500);
}

#[test]
fn turns_of_a_task_are_counted_and_not_its_pieces() {
    let exit = Scene::new(INTR, 0, 9_000)
        .kept(VcpuIntervalKind::Waiting, 1_000, 8_000)
        .host(1, Thread, "hog:77", 1_000, 4_000)
        .host(1, Irq, "local_timer:236", 2_000, 2_500)
        .host(1, Softirq, "TIMER:1", 2_500, 2_600)
        .host(1, Thread, "rcuc/1:20", 4_000, 4_500)
        .host(1, Thread, "hog:77", 4_500, 8_000);
    let run = run(&[gap(0, 9_000)], &[], vec![exit]);
    let exit = &run.trees[0].exits[0];
    let hog = exit
        .parts
        .iter()
        .find(|it| it.name.as_deref() == Some("hog:77"));
    let hog = hog.unwrap();
    assert_eq!((hog.ns, hog.count), (3_000 - 600 + 3_500, 2));
}

#[test]
fn a_microvm_that_was_traced_by_itself_is_booked_once() {
    let host = host_stream(&at(vec![preempted()]), &[]);
    // Its own recording has the same, but a little later.
    let own = [
        own(ActivityKind::Exit, 2_040, 8_040, 1),
        own(Thread, 3_040, 7_040, 2),
    ];
    let guest = guest_stream(&[gap(0, 10_000)], &own, &[]);
    let microvm = |guest: &mut RunFacts, _: &mut RunFacts| {
        guest.workload = Workload::Microvm;
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

#[test]
fn streams_that_break_off_are_joined_as_far_as_they_go() {
    let scenes = at(vec![preempted()]);
    let mut host = host_stream(&scenes, &[]);
    host.retain(|event| !matches!(event, Event::Finish(_)));
    let mut guest = guest_stream(&[gap(0, 10_000)], &[], &[]);
    guest.retain(|event| !matches!(event, Event::Finish(_) | Event::Watermark(_)));
    let run = run_with(|_, _| {}, &guest, &host);
    assert!(!run.host.complete && !run.summary.complete);
    assert_eq!(run.joined.joined, 1);
    assert_eq!(run.culprits[0].total_ns, 4_000);
}
