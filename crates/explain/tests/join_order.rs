//! Tests joins of streams in which events come late, are reported in part, or break off.

use crate::streams::by_hand::{at, gap, preempted, run_with};
use crate::streams::joined_scenes::{AT, guest_stream, host_stream};
use crate::streams::vcpus::{CPUID, ExitScene, IO};
use vmnoise_events::*;

#[test]
fn an_exit_that_comes_after_its_gap_was_explained_is_late() {
    let scenes = || at(vec![ExitScene::new(CPUID, 100, 900)]);
    let gaps = [gap(0, 1_000), gap(100_000_000, 100_001_000)];
    let guest = guest_stream(&gaps, &[], &[]);
    let in_order = host_stream(&scenes(), &[]);
    assert_eq!(run_with(|_, _| {}, &guest, &in_order).host.late_events, 0);
    let mut late = in_order;
    let exit = late
        .iter()
        .position(|event| matches!(event, Event::Exit(_)));
    let exit = late.remove(exit.unwrap());
    // The late exit comes before the last watermark.
    let end = late.len() - 3;
    late.splice(end..end, [Event::Watermark(AT + 50_000_000), exit]);
    assert_eq!(run_with(|_, _| {}, &guest, &late).host.late_events, 1);
}

#[test]
fn an_exit_counts_once_and_only_where_each_is_reported() {
    let exits = || {
        let io = ExitScene::new(IO, 1_000, 5_000).kept(VcpuIntervalKind::Vmm, 2_000, 4_000);
        vec![io, ExitScene::new(CPUID, 8_000, 9_000)]
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
