use vmnoise_events::coverage::BlindSpot;
use vmnoise_events::{FamilyBooks, FamilyWaits};

use super::*;
use crate::fitness::{Fitness, FitnessLimit, FitnessVerdict, LimitedFigure};

fn look() -> FamilyLook {
    FamilyLook {
        ended: FamilyBooks {
            wall_ns: 10_000,
            ran_ns: 4_000,
            irq_ns: 100,
            waited_ns: 400,
            waited_own_ns: 500,
            asleep_ns: 5_000,
            threads: 1,
            ..FamilyBooks::default()
        },
        ..FamilyLook::default()
    }
}

/// Returns the number of blind spots that can change the sums.
fn hidden(evidence: &FitnessEvidence) -> usize {
    let spots = evidence.coverage.blind_spots(Question::Taken).into_iter();
    let spots = spots.filter(|it| it.hides() != HiddenKind::Excluded);
    spots.count()
}

/// Preflight of 1 s. The hypervisor took 1 % of it, in pieces of 10 us.
const PREFLIGHT: HypervisorRate = HypervisorRate::Measured {
    polled_ns: 1_000_000_000,
    taken_ns: 10_000_000,
    longest_ns: 10_000,
};

/// Preflight of 1 s in which no gap was seen.
const QUIET_PREFLIGHT: HypervisorRate = HypervisorRate::Measured {
    polled_ns: 1_000_000_000,
    taken_ns: 0,
    longest_ns: 0,
};

/// Returns upper bounds of a run after this preflight: of the time taken, and of the longest
/// piece. The run has one thread, which ran for `ran_ns`.
fn bounds(ran_ns: u64, hypervisor: HypervisorRate) -> (u64, Option<u64>) {
    let mut look = FamilyLook::default();
    look.ended.wall_ns = ran_ns;
    look.ended.ran_ns = ran_ns;
    look.ended.threads = 1;
    let evidence = FitnessEvidence::traced(&look, ran_ns, true, true, hypervisor);
    (evidence.taken_ns.most.unwrap(), evidence.longest_ns.most)
}

#[test]
fn what_a_command_waits_for_itself_is_not_taken() {
    let evidence = FitnessEvidence::traced(&look(), 10_000, true, true, HypervisorRate::Nothing);
    let known = Range {
        least: 500,
        most: Some(500),
    };
    assert_eq!(evidence.taken_ns, known);
    assert_eq!(evidence.of_ns, 10_000);
    assert_eq!(evidence.noise_ppm().least, 50_000);
    assert_eq!(hidden(&evidence), 0);
}

#[test]
fn what_is_not_known_is_between_bounds() {
    let mut look = look();
    look.ended.unseen_ns = 200;
    look.waits = FamilyWaits {
        unnamed_ns: 150,
        doubtful_ns: 50,
        ..FamilyWaits::default()
    };
    look.unpaired = 3;
    look.ended.kernel_waited_ns = 1_000;
    look.ended.unshown_ns = 100;
    let evidence = FitnessEvidence::traced(&look, 10_000, true, true, HypervisorRate::Nothing);
    let bounds = Range {
        least: 350,
        most: Some(500 + 200 + 50 + 100),
    };
    assert_eq!(evidence.taken_ns, bounds);
    assert_eq!(hidden(&evidence), 1);
}

#[test]
fn without_a_steal_clock_nobody_knows_how_much_it_was() {
    let evidence = FitnessEvidence::traced(&look(), 10_000, false, true, HypervisorRate::Nothing);
    assert_eq!(
        (evidence.taken_ns.most, evidence.longest_ns.most),
        (None, None)
    );
}

/// A steal clock does not count the time that a hypervisor takes for exits and for its own
/// interrupts.
#[test]
fn in_a_guest_no_run_is_fit_without_a_measurement() {
    let of = |beyond| FitnessEvidence::traced(&look(), 10_000, true, true, beyond);
    let unmeasured = of(HypervisorRate::Unmeasured);
    assert_eq!(
        (unmeasured.taken_ns.most, unmeasured.longest_ns.most),
        (None, None)
    );
    assert_eq!(hidden(&unmeasured), 1);
    let measured = of(PREFLIGHT);
    assert_eq!(measured.taken_ns.least, 500);
    assert!(measured.taken_ns.most > Some(500), "{measured:?}");
    assert_eq!(measured.longest_ns.most, Some(10_000));
    assert_eq!(hidden(&measured), 1);
}

/// The longest of all pieces is in the preflight with a probability of 95 % only if the preflight
/// has 19 times the time of the run: 1 s / 19 is 52,631,578.9 ns.
#[test]
fn a_preflight_bounds_the_longest_piece_only_of_a_much_shorter_run() {
    assert_eq!(bounds(52_631_578, PREFLIGHT).1, Some(10_000));
    assert_eq!(bounds(52_631_579, PREFLIGHT).1, None);
    let limit = FitnessLimit {
        figure: LimitedFigure::Max,
        below: u64::MAX,
    };
    let mut look = look();
    let verdict = |look: &mut FamilyLook, ran_ns| {
        look.ended.ran_ns = ran_ns;
        let evidence = FitnessEvidence::traced(look, ran_ns, true, true, PREFLIGHT);
        FitnessVerdict::new(&[limit], &evidence).verdict
    };
    assert_eq!(verdict(&mut look, 50_000_000), Fitness::Fit);
    assert_eq!(verdict(&mut look, 500_000_000), Fitness::CannotTell);
    // A piece that was seen breaks the limit, however short the preflight was.
    look.contiguous_ns = u64::MAX;
    assert_eq!(verdict(&mut look, 500_000_000), Fitness::Unfit);
}

#[test]
fn the_hypervisors_time_has_an_upper_bound_with_confidence() {
    // The preflight had 1,000 pieces. The difference between two independent counts of about
    // 1,000 has a standard deviation of sqrt(2,000) = 44.7, and stays below 1.645 of these
    // (74 pieces) with a probability of 95 %. Counts are discrete, which adds up to 3 pieces.
    let (most_ns, _) = bounds(1_000_000_000, PREFLIGHT);
    let pieces = most_ns as f64 / 10_000.0;
    assert!((1_074.0..1_077.0).contains(&pieces), "{pieces}");
    // A longer preflight with the same rate shows the rate better: 10,000 pieces in 10 s. A run
    // of 1 s has 1,000 more or less sqrt(1,000 + 100) = 33.2, and 1.645 of these are 55.
    let longer = HypervisorRate::Measured {
        polled_ns: 10_000_000_000,
        taken_ns: 100_000_000,
        longest_ns: 10_000,
    };
    let pieces = bounds(1_000_000_000, longer).0 as f64 / 10_000.0;
    assert!((1_054.0..1_058.0).contains(&pieces), "{pieces}");
}

/// Each of 64 threads may be the one that loses most.
#[test]
fn more_threads_have_a_larger_bound_for_the_worst_of_them() {
    let worst_ns = |threads| {
        let mut look = FamilyLook::default();
        look.ended.ran_ns = threads * 1_000_000_000;
        look.ended.threads = threads;
        let run_ns = 1_000_000_000;
        let evidence = FitnessEvidence::traced(&look, run_ns, true, true, PREFLIGHT);
        evidence.worst_thread_ns.most.unwrap()
    };
    // A risk of 5 % / 64 is 3.16 standard deviations. With d more pieces than the preflight, the
    // difference has a standard deviation of sqrt(2,000 + d). This gives d = 146, and discrete
    // counts add up to 3.
    let pieces = worst_ns(64) as f64 / 10_000.0;
    assert!((1_144.0..1_151.0).contains(&pieces), "{pieces}");
    assert!(worst_ns(1) < worst_ns(64));
}

/// Without a single gap in the preflight, the rate is below -ln(0.05) pieces per second. More
/// would have shown one in 1 s with a probability of 95 %. A piece has at most the threshold of
/// 1 us.
#[test]
fn a_rate_of_zero_has_an_upper_bound_above_zero() {
    let run_ns = 1_000_000_000_000;
    let (most_ns, _) = bounds(run_ns, QUIET_PREFLIGHT);
    let rate_ns = -(0.05_f64.ln()) * USUAL_THRESHOLD_NS as f64 * 1_000.0;
    // The run is 1,000 times as long as the preflight. By chance it has more pieces than its
    // rate gives, but only about a thousandth more.
    let factor = most_ns as f64 / rate_ns;
    assert!((1.0..1.001).contains(&factor), "{factor}");
    // If the run is as long as the preflight, each piece is in the run with a probability of
    // one half. So n pieces all are in the run with 0.5^n, which is 0.05 for n = 4.32.
    let (most_ns, _) = bounds(1_000_000_000, QUIET_PREFLIGHT);
    assert!((4_321..4_323).contains(&most_ns), "{most_ns}");
}

/// A hypervisor cannot take more time from a thread than the thread ran.
#[test]
fn a_preflight_without_a_free_moment_bounds_nothing() {
    let taken = HypervisorRate::Measured {
        polled_ns: 1_000_000_000,
        taken_ns: 1_000_000_000,
        longest_ns: 1_000_000_000,
    };
    assert_eq!(bounds(1_000_000, taken).0, 1_000_000);
    let unpolled = HypervisorRate::Measured {
        polled_ns: 0,
        taken_ns: 0,
        longest_ns: 0,
    };
    assert_eq!(bounds(1_000_000, unpolled).0, 1_000_000);
    assert_eq!(bounds(0, unpolled).0, 0);
}

#[test]
fn on_bare_metal_the_verdict_excludes_the_firmware() {
    let evidence = FitnessEvidence::traced(&look(), 10_000, true, true, HypervisorRate::Nothing);
    assert_eq!(evidence.taken_ns.most, Some(500));
    let spots = evidence.coverage.blind_spots(Question::Taken);
    let kinds: Vec<HiddenKind> = spots.iter().map(BlindSpot::hides).collect();
    assert_eq!(kinds, [HiddenKind::Excluded]);
}

/// One of 64 threads loses 60 % of the run, and all others wait for it.
#[test]
fn the_thread_that_lost_most_is_judged_as_well() {
    let mut look = look();
    look.ended = FamilyBooks {
        wall_ns: 640_000,
        ran_ns: 634_000,
        waited_ns: 6_000,
        threads: 64,
        ..FamilyBooks::default()
    };
    look.most_of_ended_ns = 6_000;
    let evidence = FitnessEvidence::traced(&look, 10_000, true, true, HypervisorRate::Nothing);
    let noise = evidence.noise_ppm();
    assert_eq!((noise.least, noise.most), (600_000, Some(600_000)));
    look.most_of_ended_ns = 100;
    let evidence = FitnessEvidence::traced(&look, 10_000, true, true, HypervisorRate::Nothing);
    // All threads together lose 0.94 %, but one thread loses 1 %.
    assert_eq!(evidence.noise_ppm().least, 10_000);
}

/// An interrupt, the following soft interrupt and the following wait are one piece of time
/// without the CPU.
#[test]
fn time_taken_without_a_break_is_one_piece() {
    let mut look = look();
    look.longest = vec![FamilyLongest {
        taken: FamilyTaken::Wait,
        ns: 300,
        until_mono_ns: 0,
        who: None,
    }];
    look.contiguous_ns = 450;
    let evidence = FitnessEvidence::traced(&look, 10_000, true, true, HypervisorRate::Nothing);
    let (least, most) = (450, Some(450));
    assert_eq!(evidence.longest_ns, Range { least, most });
}

#[test]
fn several_threads_are_held_against_the_time_of_all() {
    let evidence = FitnessEvidence::traced(&look(), 2_000, true, true, HypervisorRate::Nothing);
    assert_eq!(evidence.of_ns, 4_500);
}

/// If threads wait for each other because there are more threads than CPUs, the noise does not
/// become smaller.
#[test]
fn a_longer_queue_of_its_own_makes_no_run_fitter() {
    let mut longer = look();
    longer.ended.waited_own_ns += 1_000_000;
    longer.ended.wall_ns += 1_000_000;
    let noise = |look| {
        FitnessEvidence::traced(look, 2_000, true, true, HypervisorRate::Nothing).noise_ppm()
    };
    assert_eq!(noise(&longer), noise(&look()));
}

#[test]
fn where_nothing_was_seen_or_interrupts_were_lost_nobody_knows() {
    let none = FamilyLook::default();
    let mut lost = look();
    (lost.unpaired, lost.unbounded) = (1, 1);
    let mut unkept = look();
    unkept.unpaired = 1;
    for look in [none, lost, unkept] {
        let evidence = FitnessEvidence::traced(&look, 2_000, true, true, HypervisorRate::Nothing);
        assert_eq!(evidence.taken_ns.most, None, "{look:?}");
        assert!(hidden(&evidence) > 0);
    }
}

#[test]
fn steal_that_may_have_come_in_pieces_breaks_no_limit_for_sure() {
    let mut look = look();
    look.longest = [(FamilyTaken::Wait, 300), (FamilyTaken::Steal, 900)]
        .map(|(taken, ns)| FamilyLongest {
            taken,
            ns,
            until_mono_ns: 0,
            who: None,
        })
        .into();
    let evidence = FitnessEvidence::traced(&look, 10_000, true, true, HypervisorRate::Nothing);
    let (least, most) = (300, Some(900));
    assert_eq!(evidence.longest_ns, Range { least, most });
}
