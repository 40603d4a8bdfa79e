//! Tests the share of a gap's residual if vmnoise may not have seen all work.

use crate::streams::by_hand::{at, gap, preempted, run_with};
use crate::streams::joined_scenes::{AT, guest_stream, host_stream};
use crate::streams::joins::{ALL, BOUNDS, join, plain_of_bound, stamped};
use crate::streams::vcpus::{CPUID, ExitScene};
use vmnoise_events::*;
use vmnoise_explain::JoinedRun;

#[test]
fn a_residual_is_the_hardwares_only_where_nobody_can_be_missing() {
    type Change = fn(&mut RunFacts, &mut RunFacts);
    let residual = |change: Change, gap: Gap, scenes: Vec<ExitScene>| {
        let guest = guest_stream(&[gap], &[], &[]);
        let run = run_with(change, &guest, &host_stream(&at(scenes), &[]));
        run.trees[0].residual
    };
    let nothing: Change = |_, _| {};
    let changes: [(Change, Share); 14] = [
        (nothing, Share::Hw),
        (
            |_, host| host.host.hypervisor = Some("KVM".into()),
            Share::HvOrHw,
        ),
        (|_, host| host.options.threshold_ns = 5_000, Share::HvOrHw),
        (|_, host| host.witnesses.irq = false, Share::HvOrHw),
        (|_, host| host.witnesses.softirq = false, Share::HvOrHw),
        (|_, host| host.witnesses.nmi = false, Share::HvOrHw),
        (|_, host| host.witnesses.sched = false, Share::HvOrHw),
        (|_, host| host.witnesses.kvm_run = false, Share::HvOrHw),
        (|_, host| host.witnesses.kvm_exit = false, Share::HvOrHw),
        // A vCPU leaves its guest for each interrupt of its host, even for an interrupt that no
        // probe sees. Such an interrupt would be an exit.
        (
            |_, host| host.host.posted_interrupts = Some(true),
            Share::Hw,
        ),
        (|_, host| host.witnesses.hides_vectors = true, Share::Hw),
        (
            |_, host| host.options.exits.as_mut().unwrap().reasons = vec!["io".into()],
            Share::HvOrHw,
        ),
        (|guest, _| guest.witnesses.sched = false, Share::HvOrHw),
        (|guest, _| guest.witnesses.nmi = false, Share::HvOrHw),
    ];
    for (change, share) in changes {
        assert_eq!(residual(change, gap(0, 900), vec![]), share);
    }
    let exit = || vec![ExitScene::new(CPUID, 100, 400)];
    assert_eq!(residual(nothing, gap(0, 900), exit()), Share::Unexplained);
    // One gap lies inside both recordings, and one lies after the end of the guest's recording.
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

fn at_once() -> Vec<ExitScene> {
    at(vec![ExitScene::new(CPUID, 0, 100)])
}

#[test]
fn where_records_were_lost_the_hardware_is_not_blamed() {
    let lost = Event::Loss(Loss {
        kind: LossKind::RingFull,
        count: 1,
    });
    // Like a recorder, this stream has the loss before the next watermark. The watermark is an
    // earlier clock reading. The lost record may therefore be a little later, up to the watermark
    // after it.
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
    // The loss was counted when the clock was read, but the gap comes after this reading.
    let lost = Event::Loss(Loss {
        kind: LossKind::RingFull,
        count: 1,
    });
    let reported = [
        lost,
        Event::Watermark(AT - 100),
        Event::Watermark(AT + 1_900),
    ];
    let gaps = [gap(0, 900), gap(2_000, 2_800)];
    let mut host = host_stream(&[], &[]);
    host.splice(1..1, reported);
    let run = run_with(|_, _| {}, &guest_stream(&gaps, &[], &[]), &host);
    assert_eq!(run.trees[0].residual, Share::HvOrHw);
    assert_eq!(run.trees[1].residual, Share::Hw);
}

/// The clock may be off. So an exit that seems to end before the last watermark may be in a gap that
/// begins after it.
#[test]
fn an_exit_before_the_last_watermark_may_be_in_the_next_gap() {
    let (guest_facts, host_facts, pairs, _) = plain_of_bound(BOUNDS - 1);
    let bound_ns = pairs.bound_ns(0).unwrap();
    assert!(bound_ns > 300, "{bound_ns}");
    // Longer than twice the bound, so that some time of the gap is certain to be the gap's own.
    let long_ns = 2 * bound_ns + 100;
    let [near, far] = [(1_200, 1_200 + long_ns), (9 * long_ns, 10 * long_ns)];
    let gaps = [gap(0, 1_000), gap(near.0, near.1), gap(far.0, far.1)];
    let exits = at(vec![ExitScene::new(CPUID, 100, 900)]);
    // The watermark is between the exit and the second gap.
    let guest = guest_stream(&gaps, &[], &[true]);
    let host = host_stream(&exits, &[]);
    let run = join((&guest_facts, &guest), (&host_facts, &host), pairs, ALL);
    let residual_of = |gap: &Gap| {
        let mut trees = run.trees.iter();
        let tree = trees.find(|tree| stamped(tree).0 == gap.start_tsc);
        tree.unwrap().residual
    };
    assert_eq!(residual_of(&gaps[1]), Share::Unexplained);
    assert_eq!(residual_of(&gaps[2]), Share::Hw);
}

/// Without the probe for NMIs, KVM's time is unknown, so no sum is claimed.
#[test]
fn the_thesis_sum_claims_nothing_where_a_witness_is_missing() {
    let guest = guest_stream(&[gap(0, 10_000)], &[], &[]);
    let host = host_stream(&at(vec![preempted()]), &[]);
    let run = run_with(|_, host| host.witnesses.nmi = false, &guest, &host);
    assert!(run.thesis.is_none(), "{:?}", run.thesis);
}
