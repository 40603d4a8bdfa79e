//! Tests exits of vCPUs case by case, with the expected parts in numbers.

use crate::streams::vcpus::{CPUID, ExitScene, HLT, INTR, IO, explain, facts, interrupted};
use vmnoise_events::ActivityKind::{Irq, Nmi, Thread, Throttled};
use vmnoise_events::VcpuIntervalKind::{Blocked, Halted, Vmm, Waiting};
use vmnoise_events::{Event, Share};

#[test]
fn a_light_exit_is_all_kvms() {
    let scene = ExitScene::new(CPUID, 1_000, 3_390);
    assert_eq!(scene.parts(), [(Share::Kvm, None, 2_390)]);
    let budget = scene.budget();
    assert!(!budget.exit.heavy);
    assert_eq!(budget.thesis_sum_ns(true), None);
}

#[test]
fn a_heavy_exit_is_the_vmms_and_kvms() {
    let scene = ExitScene::new(IO, 1_000, 14_334).kept(Vmm, 3_000, 13_000);
    assert!(scene.exit().heavy);
    assert_eq!(
        scene.parts(),
        [(Share::Vmm, None, 10_000), (Share::Kvm, None, 3_334)]
    );
}

#[test]
fn an_interrupt_brings_a_softirq_and_a_thread_and_each_is_net() {
    let scene = interrupted();
    assert_eq!(
        scene.parts(),
        [
            (Share::HostIrq, Some("local_timer:236"), 13_196),
            (Share::Kvm, None, 9_860),
            (Share::Preempted, Some("rcuc/0:20"), 8_171),
            (Share::HostSoftirq, Some("TIMER:1"), 1_000),
            (Share::HostIrq, Some("irq_work:246"), 411),
        ]
    );
    assert_eq!(scene.budget().thesis_sum_ns(true), Some(32_638));
    assert_eq!(scene.budget().thesis_sum_ns(false), None);
}

#[test]
fn a_hog_is_named_where_the_vcpu_waited_and_not_where_it_went() {
    let scene = ExitScene::new(INTR, 1_000, 60_000)
        .moved(Waiting, 2_000, 30_000, 1, 3)
        .host(1, Thread, "hog:7", 2_000, 55_000)
        .moved(Waiting, 40_000, 50_000, 3, 3)
        .host(3, Thread, "cat:8", 40_000, 50_000)
        .host(3, Irq, "eth0:40", 10_000, 20_000)
        .host(1, Irq, "eth1:41", 35_000, 45_000);
    assert_eq!(
        scene.parts(),
        [
            (Share::Preempted, Some("hog:7"), 28_000),
            (Share::Kvm, None, 21_000),
            (Share::Preempted, Some("cat:8"), 10_000),
        ]
    );
    let exit = scene.exit();
    assert_eq!((exit.exit_cpu, exit.entry_cpu), (1, 3));
}

#[test]
fn a_sleep_is_named_by_its_waker_and_net_of_interrupts() {
    let scene = ExitScene::new(IO, 1_000, 20_000)
        .kept(Vmm, 2_000, 19_000)
        .kept(Blocked, 4_000, 14_000)
        .woken_by("qemu-main:4168")
        .host(1, Irq, "nvme0q1:33", 5_000, 5_500)
        .host(1, Thread, "other:9", 4_000, 14_000)
        .kept(Waiting, 14_000, 15_000)
        .host(1, Thread, "other:9", 14_000, 15_000);
    assert_eq!(
        scene.parts(),
        [
            (Share::Blocked, Some("qemu-main:4168"), 9_500),
            (Share::Vmm, None, 6_000),
            (Share::Kvm, None, 2_000),
            (Share::Preempted, Some("other:9"), 1_000),
            (Share::HostIrq, Some("nvme0q1:33"), 500),
        ]
    );
}

#[test]
fn throttling_is_witnessed_by_idle() {
    let scene = ExitScene::new(INTR, 1_000, 60_000)
        .kept(Waiting, 5_000, 55_000)
        .host(1, Throttled, "swapper/1:0", 5_000, 55_000)
        .host(1, Nmi, "nmi", 6_000, 6_100);
    assert_eq!(
        scene.parts(),
        [
            (Share::Throttled, Some("swapper/1:0"), 49_900),
            (Share::Kvm, None, 9_000),
            (Share::HostNmi, Some("nmi"), 100),
        ]
    );
    assert_eq!(scene.budget().thesis_sum_ns(true), Some(9_100));
}

#[test]
fn a_halt_is_no_noise_and_the_way_back_is() {
    let scene = ExitScene::new(HLT, 1_000, 100_000)
        .kept(Blocked, 10_000, 90_000)
        .woken_by("local_timer:236")
        .kept(Waiting, 90_000, 95_000)
        .kept(Halted, 2_000, 96_000)
        // While KVM polls, the interrupt is noise. While the thread sleeps, it is not.
        .host(1, Irq, "eth0:40", 3_000, 4_000)
        .host(1, Irq, "eth0:40", 50_000, 60_000)
        .host(1, Thread, "hog:7", 40_000, 95_000);
    assert_eq!(
        scene.parts(),
        [
            (Share::Halted, None, 88_000),
            (Share::Kvm, None, 5_000),
            (Share::Preempted, Some("hog:7"), 5_000),
            (Share::HostIrq, Some("eth0:40"), 1_000),
        ]
    );
    assert_eq!(scene.budget().noise_ns(), 11_000);
    assert_eq!(
        scene.budget().clamped_ns,
        0,
        "nobody is named for the sleep"
    );
}

#[test]
fn what_was_lost_has_no_name_and_the_amounts_stay() {
    let whole = interrupted();
    let lacks_thread = |event: &Event| !matches!(event, Event::Activity(it) if it.kind == Thread);
    let events: Vec<Event> = whole.events().into_iter().filter(lacks_thread).collect();
    let (budgets, run) = explain(&facts(), &events);
    let preempted: Vec<_> = budgets[0]
        .parts
        .iter()
        .filter(|part| part.share == Share::Preempted)
        .map(|part| (part.source, part.ns))
        .collect();
    assert_eq!(preempted, [(None, 8_171)]);
    assert_eq!((budgets[0].unnamed_ns(), run.unnamed_ns), (8_171, 8_171));
    assert_eq!(run.longest[0].misplaced_ns, 0);
}

#[test]
fn a_lost_interval_leaves_its_time_without_a_name() {
    let whole = interrupted();
    let is_reported = |event: &Event| !matches!(event, Event::VcpuInterval(_));
    let events: Vec<Event> = whole.events().into_iter().filter(is_reported).collect();
    let (budgets, run) = explain(&facts(), &events);
    let split = whole.exit().split;
    for (share, ns) in split.select(Share::OF_EXITS) {
        let of_share = budgets[0].parts.iter().filter(|part| part.share == share);
        assert_eq!(of_share.map(|part| part.ns).sum::<u64>(), ns, "{share}");
    }
    assert_eq!(budgets[0].unnamed_ns(), 8_171);
    assert_eq!(run.longest[0].misplaced_ns, 8_171, "kvm's by the pieces");
}

#[test]
fn what_is_named_beyond_the_split_is_taken_from_the_largest() {
    let scene = ExitScene::new(INTR, 1_000, 11_000)
        .host(1, Irq, "big:1", 2_000, 6_000)
        .host(1, Irq, "small:2", 7_000, 7_500);
    let mut events = scene.events();
    for event in &mut events {
        if let Event::Exit(reported) = event {
            reported.exit.split[Share::HostIrq] -= 1_000;
            reported.exit.split[Share::Kvm] += 1_000;
        }
    }
    let (budgets, run) = explain(&facts(), &events);
    let ns: Vec<u64> = budgets[0].parts.iter().map(|part| part.ns).collect();
    assert_eq!(ns, [6_500, 3_000, 500]);
    assert_eq!((budgets[0].clamped_ns, run.clamped_ns), (1_000, 1_000));
}
