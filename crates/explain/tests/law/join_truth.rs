//! Compares joins of generated pairs with the truth.

use std::collections::HashMap;

use crate::streams::any_plans::{any_plan, any_stays};
use crate::streams::clocks::{Stop, StopKind};
use crate::streams::joins::{ALL, join, obeys_the_law, pairs_of, stamped};
use crate::streams::lives::{Life, LifeSpan, VcpuStay};
use crate::streams::pairs::{RecordedPair, RecordingPlan};
use proptest::prelude::*;
use vmnoise_events::{Event, Share, VcpuId};
use vmnoise_explain::{ExitBranch, JoinError, JoinedRun, VmSide};

/// A joined run, and for each pair its vCPU in the host's stream.
struct Joined {
    run: JoinedRun,
    vcpus: Vec<VcpuId>,
}

fn joined(pair: &RecordedPair) -> Result<Joined, JoinError> {
    let pairs = pairs_of(pair)?;
    let of_pair = pairs.pairs().iter();
    let vcpus = of_pair.filter_map(|pair| pairs.vcpu_of(pair.cpu)).collect();
    let run = join(
        (&pair.guest_facts, &pair.guest),
        (&pair.host_facts, &pair.host),
        pairs,
        ALL,
    );
    obeys_the_law(&run);
    Ok(Joined { run, vcpus })
}

/// Returns the gaps of this life. The keys are the values of the guest's counter at the start and
/// the end of each gap.
fn gaps_of<'a>(plan: &RecordingPlan, life: &'a Life) -> HashMap<(u64, u64), &'a LifeSpan> {
    let tsc = |at_ns| plan.clocks.guest_tsc(at_ns);
    let gaps = life.gaps.iter();
    gaps.map(|gap| ((tsc(gap.start_ns), tsc(gap.end_ns)), gap))
        .collect()
}

/// Asserts that only gaps between the first and the last exit of the joined vCPU are `witnessed`.
/// Asserts that hardware is blamed only for such gaps, and only if no exit, reported or lost,
/// overlaps the gap.
fn claims_no_more_than_was_seen(
    plan: &RecordingPlan,
    pair: &RecordedPair,
    joined: &Joined,
) -> Result<(), TestCaseError> {
    let reported = plan.reported_vcpus(&pair.lives);
    for (found, vcpu) in joined.run.pairs.iter().zip(&joined.vcpus) {
        let life = &pair.lives[found.cpu as usize];
        let gaps = gaps_of(plan, life);
        let exits = reported[vcpu.0 as usize].exits.iter();
        let mut exits = exits.filter(|exit| plan.host.0 <= exit.start_ns);
        let first_ns = exits.clone().next().map_or(u64::MAX, |exit| exit.start_ns);
        let last_ns = exits.next_back().map_or(0, |exit| exit.end_ns);
        // The truth is in ideal time, from which both clocks may deviate by 500 ppm.
        let slack_ns = found.bound_ns + found.bound_ns / 500 + 2;
        let trees = joined.run.trees.iter();
        for tree in trees.filter(|tree| tree.of.cpu == found.cpu) {
            let gap = gaps[&stamped(tree)];
            let is_there = first_ns <= gap.start_ns + slack_ns && gap.end_ns <= last_ns + slack_ns;
            prop_assert!(
                is_there || !tree.witnessed,
                "{first_ns}..{last_ns}: {tree:?}"
            );
            let mut left = life.exits.iter().chain(&life.lost_exits);
            let was_out = left.any(|exit| exit.start_ns < gap.end_ns && gap.start_ns < exit.end_ns);
            let blames_hardware = tree.of.parts.iter().any(|part| part.share == Share::Hw);
            prop_assert!(!(was_out && blames_hardware), "{gap:?}: {tree:?}");
            prop_assert!(tree.witnessed || !blames_hardware, "{tree:?}");
        }
    }
    Ok(())
}

/// Returns the number of exits in a gap, and their ideal time in the gap.
fn overlap_ns(gap: &LifeSpan, exits: &[LifeSpan]) -> (u64, u64) {
    let inside = exits.iter().filter_map(|exit| {
        let (from, to) = (exit.start_ns.max(gap.start_ns), exit.end_ns.min(gap.end_ns));
        (from < to).then(|| to - from)
    });
    inside.fold((0, 0), |(count, ns), more| (count + 1, ns + more))
}

/// Checks for each gap of each CPU that the host's time in it is the true time. At both ends of
/// each exit, the error may be up to the clock's bound.
fn reports_the_truth(
    plan: &RecordingPlan,
    pair: &RecordedPair,
    run: &JoinedRun,
) -> Result<(), TestCaseError> {
    for found in &run.pairs {
        let life = &pair.lives[found.cpu as usize];
        let gaps = gaps_of(plan, life);
        let trees = run.trees.iter();
        for tree in trees.filter(|tree| tree.of.cpu == found.cpu && tree.witnessed) {
            let gap = gaps[&stamped(tree)];
            if plan.clocks.is_stopped(gap.start_ns, gap.end_ns) {
                continue;
            }
            let (count, truth_ns) = overlap_ns(gap, &life.exits);
            let reported_ns: u64 = tree.stretches[0].exits.iter().map(|exit| exit.dur_ns).sum();
            // Each end of an exit is converted within the bound. An exit that then overlaps its gap
            // by at most twice the bound is not named. Its true overlap may be four times the
            // bound. A clock whose rate is changed by 500 ppm adds an error proportional to the
            // length.
            let slack_ns = (4 * found.bound_ns + 2) * count.max(1) + truth_ns / 1_000;
            let overlap_ns = 2 * found.bound_ns;
            let is_named = |exit: &ExitBranch| exit.dur_ns > overlap_ns;
            prop_assert!(tree.stretches[0].exits.iter().all(is_named), "{tree:?}");
            prop_assert!(
                reported_ns.abs_diff(truth_ns) <= slack_ns,
                "{reported_ns} of {truth_ns}: {tree:?}"
            );
            let kvm_ns: u64 = tree.stretches[0]
                .exits
                .iter()
                .flat_map(|exit| &exit.parts)
                .map(|it| it.ns)
                .sum();
            prop_assert_eq!(kvm_ns, reported_ns);
        }
    }
    Ok(())
}

laws! {
    one_in(128);

    #[test]
    fn each_gap_has_of_its_host_what_it_truly_had(plan in any_plan(), stays in any_stays()) {
        let plan = RecordingPlan { stays, ..plan };
        let pair = plan.record();
        let joined = joined(&pair);
        prop_assume!(joined.is_ok());
        let joined = joined.unwrap();
        claims_no_more_than_was_seen(&plan, &pair, &joined)?;
        let run = joined.run;
        reports_the_truth(&plan, &pair, &run)?;
        // If the guest's counter goes back, its clock is not followed any more. This may happen
        // soon after the start, so that no gap is witnessed.
        prop_assert!(run.joined.witnessed > 0 || plan.clocks.goes_back());
        prop_assert!(run.host.complete);
    }
}

#[test]
fn on_plain_clocks_the_truth_is_exact() {
    let plan = RecordingPlan {
        own_percent: 0,
        ..RecordingPlan::plain()
    };
    let pair = plan.record();
    let run = joined(&pair).unwrap().run;
    assert_eq!(run.joined.gaps, run.joined.joined);
    let life = &pair.lives[0];
    let mut truth_ns = 0;
    for tree in &run.trees {
        let is_it = |gap: &&LifeSpan| gap.start_ns == stamped(tree).0;
        let gap = life.gaps.iter().find(is_it).unwrap();
        let (_, ns) = overlap_ns(gap, &life.exits);
        assert_eq!(tree.stretches[0].exits[0].dur_ns, ns);
        truth_ns += ns;
    }
    let kvm = &run.culprits[0];
    assert_eq!(
        (kvm.side, kvm.share, kvm.total_ns),
        (VmSide::Host, Share::Kvm, truth_ns)
    );
}

#[test]
fn another_vm_on_the_same_host_is_not_blamed() {
    let plan = RecordingPlan {
        apic_ids: vec![0, 1],
        other_vms: 1,
        ..RecordingPlan::plain()
    };
    let pair = plan.record();
    let run = joined(&pair).unwrap().run;
    assert!(run.pairs.iter().all(|pair| pair.vm == "web0"));
    reports_the_truth(&plan, &pair, &run).unwrap();
}

#[test]
fn a_quiet_host_is_blamed_for_nothing() {
    let mut pair = RecordingPlan::plain().record();
    let run = joined(&pair).unwrap().run;
    // The guest's recording stays the same, but the host reports no exits.
    let pairs = pairs_of(&pair).unwrap();
    pair.host.retain(|event| !matches!(event, Event::Exit(_)));
    let quiet = join(
        (&pair.guest_facts, &pair.guest),
        (&pair.host_facts, &pair.host),
        pairs,
        ALL,
    );
    obeys_the_law(&quiet);
    assert!(run.culprits.iter().any(|it| it.side == VmSide::Host));
    assert!(quiet.culprits.iter().all(|it| it.side != VmSide::Host));
    assert_eq!((quiet.joined.joined, quiet.thesis), (0, None));
    assert_eq!(quiet.joined.witnessed, quiet.joined.gaps);
}

#[test]
fn only_what_both_recorded_is_witnessed() {
    let plan = RecordingPlan {
        host: (600_000_000, 1_500_000_000),
        ..RecordingPlan::plain()
    };
    let pair = plan.record();
    let run = joined(&pair).unwrap().run;
    let joined = run.joined;
    assert!(0 < joined.witnessed && joined.witnessed < joined.gaps);
    for tree in &run.trees {
        let (start_tsc, end_tsc) = stamped(tree);
        let is_inside = 600_000_000 < start_tsc && end_tsc < 1_500_000_000;
        assert!(tree.witnessed <= is_inside, "{tree:?}");
        assert!(tree.witnessed || tree.residual == Share::HvOrHw, "{tree:?}");
    }
}

/// A recording that breaks off in a drain has some exits after its last watermark. Others, and
/// losses, may be missing there.
#[test]
fn nothing_after_the_last_watermark_of_the_host_is_witnessed() {
    let mut pair = RecordingPlan::plain().record();
    let watermarks = pair.host.iter().enumerate();
    let watermarks = watermarks.filter_map(|(place, event)| match event {
        Event::Watermark(mono_ns) => Some((place, *mono_ns)),
        _ => None,
    });
    let watermarks: Vec<(usize, u64)> = watermarks.collect();
    let middle = watermarks.len() / 2;
    let ((_, until_ns), (cut, _)) = (watermarks[middle - 1], watermarks[middle]);
    pair.host.truncate(cut);
    let pairs = pairs_of(&pair).unwrap();
    let exits = pair.host.iter().filter_map(|event| match event {
        Event::Exit(exit) => Some(exit.exit.end_mono_ns),
        _ => None,
    });
    let last_exit_ns = exits.max().unwrap();
    let gaps = &pair.lives[0].gaps;
    let has_exit = |gap: &LifeSpan| until_ns < gap.end_ns && gap.end_ns <= last_exit_ns;
    assert!(
        gaps.iter().any(has_exit),
        "the cut is in a drain with exits"
    );
    for gap in gaps {
        let is_witnessed = pairs.witnessed(0, gap.start_ns, gap.end_ns);
        assert_eq!(is_witnessed, gap.end_ns <= until_ns, "{gap:?}");
    }
}

/// The vCPU may leave the host, come later, or go on under another id. Gaps without the joined vCPU
/// on this host are not covered, and none of them belongs to the hardware.
#[test]
fn gaps_are_witnessed_only_while_their_vcpu_is_there() {
    const S: u64 = 1_000_000_000;
    let stays = [
        VcpuStay::Always,
        VcpuStay::Until(6 * S / 5),
        VcpuStay::From(6 * S / 5),
        VcpuStay::OtherIdFrom(19 * S / 10),
        VcpuStay::OtherThreadFrom(19 * S / 10),
    ];
    for stay in stays {
        let plan = RecordingPlan {
            stays: vec![stay],
            ..RecordingPlan::plain()
        };
        let pair = plan.record();
        let run = joined(&pair).unwrap().run;
        reports_the_truth(&plan, &pair, &run).unwrap();
        let exits = pair.lives[0].exits.iter();
        let mut exits =
            exits.filter(|exit| plan.host.0 <= exit.start_ns && stay.reports(exit) == Some(false));
        let (first, last) = (exits.clone().next().unwrap(), exits.next_back().unwrap());
        assert!(run.trees.iter().any(|tree| tree.witnessed), "{stay:?}");
        for tree in &run.trees {
            let (start_tsc, end_tsc) = stamped(tree);
            let is_there = first.start_ns <= start_tsc && end_tsc <= last.end_ns;
            assert_eq!(tree.witnessed, is_there, "{stay:?}: {tree:?}");
            let is_hidden = tree.witnessed || tree.residual == Share::HvOrHw;
            assert!(is_hidden, "{stay:?}: {tree:?}");
        }
    }
}

/// The kernel's totals may include exits after the end of a cut recording, which has no records of
/// these exits.
#[test]
fn a_recording_that_was_cut_knows_nothing_after_its_last_watermark() {
    let mut pair = RecordingPlan::plain().record();
    let is_totals = |event: &Event| matches!(event, Event::VcpuTotals(_));
    let totals: Vec<Event> = pair
        .host
        .iter()
        .filter(|it| is_totals(it))
        .cloned()
        .collect();
    let marks = (0..).zip(&pair.host);
    let marks = marks.filter_map(|(place, event)| match event {
        Event::Watermark(mono_ns) => Some((place, *mono_ns)),
        _ => None,
    });
    let marks: Vec<(usize, u64)> = marks.collect();
    let (place, until_ns) = marks[marks.len() / 2];
    // The recording keeps the next reading of the clocks, but no other event of that drain.
    pair.host.truncate(place + 2);
    assert!(matches!(pair.host.last(), Some(Event::Anchor(_))));
    pair.host.extend(totals);
    let run = joined(&pair).unwrap().run;
    let ends = run.trees.iter().filter(|tree| tree.witnessed);
    let last_ns = ends.map(|tree| stamped(tree).1).max().unwrap();
    assert!(last_ns <= until_ns, "{last_ns} after watermark {until_ns}");
    assert!(run.trees.iter().any(|tree| stamped(tree).1 > until_ns));
}

/// The guest's counter goes back by less than the time between two drains (20 ms), or by more. It
/// therefore shows some readings twice.
#[test]
fn a_guest_that_was_loaded_from_a_snapshot_is_joined_where_its_time_is_known() {
    for back_ns in [5_000_000, 300_000_000] {
        let mut plan = RecordingPlan::plain();
        plan.clocks.stops = vec![Stop {
            from_ns: 1_200_000_000,
            to_ns: 1_260_000_000,
            kind: StopKind::Restored { back_ns },
        }];
        let pair = plan.record();
        let joined = joined(&pair).unwrap();
        claims_no_more_than_was_seen(&plan, &pair, &joined).unwrap();
        reports_the_truth(&plan, &pair, &joined.run).unwrap();
        assert!(joined.run.joined.witnessed > 0);
    }
}

/// If exits are left out, the kernel's own totals say how long the vCPU was on the host.
#[test]
fn a_host_that_leaves_exits_out_knows_how_long_its_vcpus_were_there() {
    const LEFT_NS: u64 = 1_200_000_000;
    let plan = RecordingPlan {
        stays: vec![VcpuStay::Until(LEFT_NS)],
        ..RecordingPlan::plain()
    };
    let mut pair = plan.record();
    let life = &pair.lives[0];
    let last = life
        .exits
        .iter()
        .rfind(|exit| exit.end_ns <= LEFT_NS)
        .unwrap();
    // The last exit is one of the exits that are left out.
    let threshold_ns = last.end_ns - last.start_ns + 1;
    pair.host_facts.options.threshold_ns = threshold_ns;
    pair.host.retain(|event| match event {
        Event::Exit(exit) => exit.exit.dur_ns() >= threshold_ns,
        _ => true,
    });
    let run = joined(&pair).unwrap().run;
    let witnessed = run.trees.iter().filter(|tree| tree.witnessed);
    let ends = witnessed.map(|tree| stamped(tree).1);
    let life = &pair.lives[0];
    let truth = life.gaps.iter().filter(|gap| gap.end_ns <= last.end_ns);
    assert_eq!(ends.max(), truth.map(|gap| gap.end_ns).max());
}
