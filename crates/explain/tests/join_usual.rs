//! Tests that KVM has no more time in a joined exit than in similar exits.

use crate::streams::by_hand::{gap, parts, run};
use crate::streams::vcpus::{CPUID, ExitScene, INTR};
use vmnoise_events::*;
use vmnoise_explain::JoinedTotals;

use ActivityKind::Irq;

#[test]
fn kvm_has_no_more_of_an_exit_than_without_the_hosts_work() {
    let mut scenes: Vec<ExitScene> = (0..150)
        .map(|n| ExitScene::new(CPUID, n * 3_000, n * 3_000 + 1_000))
        .collect();
    let long = 600_000;
    let exit =
        ExitScene::new(CPUID, long, long + 6_000).host(1, Irq, "eth0:30", long + 100, long + 1_100);
    scenes.push(exit);
    let run = run(&[gap(long - 100, long + 6_200)], &[], scenes);
    let expected = [
        (Share::Unexplained, None, 4_000 + 300),
        (Share::HostIrq, Some("eth0:30"), 1_000),
        (Share::Kvm, Some("cpuid"), 1_000),
    ];
    assert_eq!(parts(&run, 0), expected);
    assert_eq!(
        (
            run.trees[0].stretches[0].residual_ns,
            run.trees[0].stretches[0].exits[0].dur_ns
        ),
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
        let exit = ExitScene::new(INTR, start, start + 1_500);
        exit.host(1, Irq, "local_timer:236", start + 100, start + 600)
    };
    let mut scenes: Vec<ExitScene> = (0..150).map(|n| timer(n * 3_000)).collect();
    let long = 600_000;
    let two = ExitScene::new(INTR, long, long + 6_000)
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

/// All exits contain only one interrupt. In 200 exits, KVM has 2 us. In the last exit, KVM has 5
/// ms.
#[test]
fn an_exit_with_one_interrupt_is_held_against_its_like() {
    let timer = |start, end| {
        let exit = ExitScene::new(INTR, start, end);
        exit.host(1, Irq, "local_timer:236", start + 100, start + 600)
    };
    let mut scenes: Vec<ExitScene> = (0..200)
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
