//! Tests predictions whose exact or theoretical value is known.

use super::{
    barriers, delay_ns, delay_of_recorded_gaps_ns, exponential, named, predicted, random_gaps,
    record,
};
use crate::record::CpuRecord;
use crate::scale::{Basis, BspProgram, Collective, HostCpus, WhyNot, predict};

/// If one gap comes in each period, a single rank gets the remaining time, whatever the duration of
/// its step is.
#[test]
fn one_rank_with_a_periodic_gap_has_what_is_left_of_its_cpu() {
    let (period_ns, gap_ns) = (1_000_000, 50_000);
    let gaps: Vec<(u64, u64)> = (0..20_000).map(|nth| (nth * period_ns, gap_ns)).collect();
    let records = [record(0, &gaps, 20_000 * period_ns)];
    for step_ns in [3_000, 950_000, 1_000_000, 7_777_777] {
        let prediction = predicted(&records, barriers(step_ns), &[1]);
        let stretched_ns = step_ns as f64 * period_ns as f64 / (period_ns - gap_ns) as f64;
        let found_ns = prediction.scales[0].step_ns.unwrap();
        // No step begins in the time of the last step, and less is known of steps that the end of
        // the run cuts. This affects less than 8 ms of 20 s.
        assert!(
            (found_ns / stretched_ns - 1.0).abs() < 0.05 * 8e6 / 2e10,
            "{step_ns}: {found_ns} {stretched_ns}"
        );
    }
}

/// If the gaps of many hosts are periodic, and the period is one step, some rank meets a gap in
/// each step.
#[test]
fn many_ranks_always_meet_a_periodic_gap() {
    let gaps: Vec<(u64, u64)> = (0..1_000).map(|nth| (nth * 1_000_000, 50_000)).collect();
    let records = [record(0, &gaps, 1_000_000_000)];
    let prediction = predicted(&records, barriers(100_000), &[1, 1_000]);
    let found_ns = delay_of_recorded_gaps_ns(&prediction.scales[1]);
    assert!((49_990.0..=50_000.0).contains(&found_ns), "{found_ns}");
}

/// Tests Poisson gaps with exponential lengths of 100 us on average, one gap in 100 steps. Gaps hit
/// about H / 100 of H hosts.
///
/// The largest of n exponential lengths is on average the mean times 1 + 1/2 + ... + 1/n. If n is
/// random (Poisson) with a large mean m, the largest is the mean times ln m + Euler's constant.
#[test]
fn the_slowest_of_many_independent_ranks_is_where_theory_has_it() {
    let mut random = fastrand::Rng::with_seed(3);
    let (pause_ns, gap_ns, step_ns) = (100e6, 100e3, 1_000_000);
    let to_ns = 20_000 * 100_000_000_u64;
    let gaps = random_gaps(&mut random, pause_ns, |it| exponential(it, gap_ns), to_ns);
    let records = [record(0, &gaps, to_ns)];
    // 2,000,000 steps are sufficient for 20,000 ranks.
    let ranks = [2_000, 10_000];
    let prediction = predicted(&records, barriers(step_ns), &ranks);
    for scale in &prediction.scales {
        assert_eq!(scale.basis, Basis::Recorded);
        let hits: f64 = scale.ranks as f64 / 100.0;
        let theory_ns = gap_ns * (hits.ln() + 0.577_2);
        // The largest of n hits is about the quantile at 1 - 1/n. With 20,000 gaps, the sample
        // gives this quantile with an error of about sqrt(n / 20,000) means: 0.03 and 0.07. The
        // test allows three times this error.
        let unsure_ns = 3.0 * gap_ns * (hits / 20_000.0).sqrt() + 0.02 * theory_ns;
        let found_ns = delay_ns(scale);
        assert!(
            (found_ns - theory_ns).abs() < unsure_ns,
            "{found_ns} {theory_ns}"
        );
        let (low_ns, high_ns) = scale.band_ns.unwrap();
        assert!(low_ns < scale.step_ns.unwrap() && scale.step_ns.unwrap() < high_ns);
    }
}

/// Two CPUs that always lose time together delay a step like one CPU.
#[test]
fn what_cpus_of_a_host_have_in_common_is_kept() {
    let mut random = fastrand::Rng::with_seed(4);
    let to_ns = 10_000_000_000;
    let gaps = random_gaps(&mut random, 10e6, |it| exponential(it, 100e3), to_ns);
    let together = [record(0, &gaps, to_ns), record(1, &gaps, to_ns)];
    let moved: Vec<(u64, u64)> = gaps.iter().map(|(at, ns)| (at + 3_333_333, *ns)).collect();
    let apart = [record(0, &gaps, to_ns), record(1, &moved, to_ns)];
    let delays = |records: &[CpuRecord]| {
        let prediction = predicted(records, barriers(1_000_000), &[1, 2]);
        prediction
            .scales
            .iter()
            .map(delay_of_recorded_gaps_ns)
            .collect::<Vec<f64>>()
    };
    let [one, both] = delays(&together)[..] else {
        panic!()
    };
    assert!((both / one - 1.0).abs() < 0.02, "{one} {both}");
    let [one, both] = delays(&apart)[..] else {
        panic!()
    };
    // Each CPU loses time in one of ten steps. So 1.9 of ten steps of two independent CPUs are
    // delayed.
    assert!(both / one > 1.8, "{one} {both}");
}

#[test]
fn hosts_in_phase_are_as_one_host() {
    let mut random = fastrand::Rng::with_seed(5);
    let gaps = random_gaps(
        &mut random,
        10e6,
        |it| exponential(it, 100e3),
        1_000_000_000,
    );
    let records = [record(0, &gaps, 1_000_000_000)];
    let in_phase = BspProgram {
        in_phase: true,
        ..barriers(1_000_000)
    };
    let prediction = predicted(&records, in_phase, &[1, 1_000_000]);
    assert_eq!(prediction.carried_ranks, None);
    let [one, million] = &prediction.scales[..] else {
        panic!()
    };
    // If all hosts are in phase, no rank waits for another rank.
    assert_eq!(delay_ns(one), delay_ns(million));
    assert_eq!(million.basis, Basis::Recorded);
}

/// One of two CPUs is always in a gap, so every step begins in a gap.
#[test]
fn a_host_of_which_some_cpu_is_always_away_is_not_called_quiet() {
    let turns = |from_ns: u64| -> Vec<(u64, u64)> {
        let turns = (0..500).map(|nth| (from_ns + nth * 2_000_000, 1_000_000));
        turns.collect()
    };
    let records = [
        record(0, &turns(0), 1_000_000_000),
        record(1, &turns(1_000_000), 1_000_000_000),
    ];
    let prediction = predicted(&records, barriers(1_000_000), &[1, 2]);
    let [one, two] = &prediction.scales[..] else {
        panic!()
    };
    // One CPU alone loses half of its time. Two CPUs lose their time alternately, so in each step
    // the slower rank meets one whole gap.
    assert!(
        (delay_ns(one) / 1e6 - 1.0).abs() < 0.01,
        "{}",
        delay_ns(one)
    );
    assert!(
        (delay_ns(two) / 1e6 - 1.0).abs() < 0.01,
        "{}",
        delay_ns(two)
    );
}

/// With more ranks, the delay is never smaller, both for predictions and for lower bounds.
#[test]
fn more_ranks_are_never_less_late() {
    let mut random = fastrand::Rng::with_seed(11);
    for kind in 0..4 {
        let mean_ns = 20e3 * f64::from(kind + 1);
        let gaps = random_gaps(
            &mut random,
            3e6,
            |it| exponential(it, mean_ns),
            2_000_000_000,
        );
        let records = [record(0, &gaps, 2_000_000_000)];
        let ranks = [1, 10, 100, 1_000, 2_000, 10_000, 1_000_000];
        let prediction = predicted(&records, barriers(1_000_000), &ranks);
        let of_recorded_gaps = prediction.scales.iter().map(|it| it.of_recorded_gaps_ns);
        assert!(of_recorded_gaps.is_sorted(), "{kind} {prediction:?}");
        for scale in &prediction.scales {
            let at_least_ns = scale.at_least_ns.or(scale.band_ns.map(|it| it.0)).unwrap();
            assert!(at_least_ns < scale.of_recorded_gaps_ns);
        }
    }
}

/// If the end of the run cuts a step, the gap in this step still counts.
#[test]
fn a_gap_at_the_end_of_the_run_counts_as_one_in_the_middle() {
    let (to_ns, step_ns, gap_ns) = (10_000_000_000, 1_000_000, 50_000_000);
    let with_gap_at = |at_ns: u64| {
        let ticks = (0..2_000).map(|nth| (nth * 5_000_000 + 1, 2_000));
        let ticks = ticks.filter(|(begin_ns, _)| !(at_ns..=at_ns + gap_ns).contains(begin_ns));
        let mut gaps: Vec<(u64, u64)> = ticks.chain([(at_ns, gap_ns)]).collect();
        gaps.sort_unstable();
        let prediction = predicted(&[record(0, &gaps, to_ns)], barriers(step_ns), &[1, 80]);
        assert_eq!(prediction.longest_ns / gap_ns, 1);
        let scales = prediction.scales.iter();
        let delays = scales.map(|it| it.of_recorded_gaps_ns - it.undisturbed_ns);
        delays.collect::<Vec<f64>>()
    };
    let middle = with_gap_at(to_ns / 2);
    let end = with_gap_at(to_ns - gap_ns);
    for (end_ns, middle_ns) in end.iter().zip(&middle) {
        // The test leaves out the last step's time: 1 ms of 10 s, and 1 ms of the gap's 50 ms.
        assert!(
            (end_ns / middle_ns - 1.0).abs() < 0.03,
            "{end:?} {middle:?}"
        );
    }
}

/// Removing an injected culprit reduces the delay by as much as the culprit adds, for numbers of
/// ranks that meet it. Removing a culprit with short gaps then gains nothing.
#[test]
fn what_an_injected_culprit_costs_is_what_removing_it_gains() {
    let (to_ns, step_ns) = (600_000_000_000, 1_000_000);
    let mut loud = CpuRecord::new(0);
    let mut quiet = CpuRecord::new(0);
    let tick = [&mut loud, &mut quiet].map(|it| it.culprit(named("tick")));
    let rare = loud.culprit(named("irqbalance:612"));
    for nth in 0..150_000 {
        let at_ns = nth * 4_000_000;
        loud.push(at_ns, 5_000, [(tick[0], 5_000)].into_iter());
        quiet.push(at_ns, 5_000, [(tick[1], 5_000)].into_iter());
        if nth % 150 == 7 {
            loud.push(at_ns + 1_234_567, 300_000, [(rare, 300_000)].into_iter());
        }
    }
    loud.measured(0, to_ns);
    quiet.measured(0, to_ns);
    let ranks = [1, 4_096];
    let [loud, quiet] = [loud, quiet].map(|it| predicted(&[it], barriers(step_ns), &ranks));
    let names: Vec<_> = loud
        .suspects
        .iter()
        .map(|it| it.culprit.name.clone().unwrap())
        .collect();
    assert_eq!(names, ["tick", "irqbalance"]);
    assert_eq!(
        (loud.suspects[1].gaps, loud.suspects[1].most_ns),
        (1_000, 300_000)
    );
    for (loud, quiet) in loud.scales.iter().zip(&quiet.scales) {
        let without_rare_ns = loud.without_ns[1];
        assert!((without_rare_ns / quiet.step_ns.unwrap() - 1.0).abs() < 1e-9);
    }
    let large = &loud.scales[1];
    // One host in 600 meets the culprit, so practically always at least one of 4,096 hosts does.
    assert!(large.step_ns.unwrap() > 1_290_000.0 && large.without_ns[1] < 1_006_000.0);
    // The tick does not cause the delay of many ranks, because it ends long before the rare gap
    // does.
    assert!(large.without_ns[0] > 1_290_000.0, "{large:?}");
}

/// A recording of a thousand steps is sufficient for ten hosts. For more hosts it gives only a
/// lower bound.
#[test]
fn beyond_what_was_recorded_only_the_least_is_said() {
    let gaps: Vec<(u64, u64)> = (0..1_000).map(|nth| (nth * 1_000_000, 50_000)).collect();
    let records = [
        record(0, &gaps, 1_000_000_000),
        record(1, &gaps, 1_000_000_000),
    ];
    let prediction = predicted(&records, barriers(1_000_000), &[16, 22, 1_000_000]);
    assert_eq!(prediction.host_steps, 950);
    assert_eq!(prediction.carried_ranks, Some(19));
    let [within, beyond, far] = &prediction.scales[..] else {
        panic!()
    };
    assert_eq!(within.basis, Basis::Recorded);
    for scale in [beyond, far] {
        assert_eq!(
            (scale.basis, scale.step_ns, scale.band_ns),
            (Basis::Nothing(WhyNot::FewSteps), None, None)
        );
        assert_eq!(scale.bounds_ns, None);
        // Each step has a tick on one of ten hosts, and some rank waits for the tick. So this delay
        // is certain.
        let at_least_ns = scale.at_least_ns.unwrap() - scale.undisturbed_ns;
        assert!((45_000.0..=100_000.0).contains(&at_least_ns), "{scale:?}");
    }
}

/// If a few long gaps cause most of the delay, another recording has more of these gaps, or none.
#[test]
fn what_rests_on_a_few_gaps_is_not_predicted() {
    let with = |long: u64| {
        let ticks = (0..10_000).map(|nth| (nth * 1_000_000, 2_000));
        let long = (0..long).map(|nth| (nth * 900_500_000 + 300_000, 500_000));
        let mut gaps: Vec<(u64, u64)> = ticks.chain(long).collect();
        gaps.sort_unstable();
        let prediction = predicted(
            &[record(0, &gaps, 10_000_000_000)],
            barriers(1_000_000),
            &[90],
        );
        prediction.scales[0].clone()
    };
    let few = with(2);
    assert_eq!(few.basis, Basis::Nothing(WhyNot::FewGaps), "{few:?}");
    assert!(few.at_least_ns.unwrap() < few.of_recorded_gaps_ns);
    // Ten long gaps are in ten of 20 blocks. The relative error is about sqrt(1 / 10), so the ratio
    // of the ends of the band is exp(2 * 1.73 * 0.32) = 3.
    let ten = with(11);
    assert_eq!(ten.basis, Basis::Recorded, "{ten:?}");
}

/// Forty gaps of different lengths do not show how long gaps can get. Too few steps are a reason of
/// their own.
#[test]
fn what_rests_on_an_unknown_tail_is_not_predicted() {
    let gaps = (0..40).map(|nth: u64| {
        // The long gaps are spread over the run.
        let length_ns = 2_000.0 * 1.15_f64.powi((nth * 7 % 40) as i32);
        (nth * 10_000_000 + 1_000, length_ns as u64)
    });
    let records = [record(0, &gaps.collect::<Vec<_>>(), 400_000_000)];
    let prediction = predicted(&records, barriers(1_000_000), &[1, 1_000]);
    let [one, many] = &prediction.scales[..] else {
        panic!()
    };
    assert_eq!(one.basis, Basis::Nothing(WhyNot::UnknownTail));
    assert_eq!(
        (one.step_ns, one.band_ns, one.bounds_ns),
        (None, None, None)
    );
    assert!(one.at_least_ns.unwrap() < one.of_recorded_gaps_ns);
    assert_eq!(many.basis, Basis::Nothing(WhyNot::FewSteps));
}

#[test]
fn a_step_longer_than_the_run_has_no_prediction() {
    let records = [record(0, &[(10, 10)], 1_000)];
    let hosts = [HostCpus {
        cpus: records.iter().collect(),
    }];
    assert!(predict(&hosts, &barriers(1_000), &[1]).is_none());
    assert!(predict(&hosts, &barriers(500), &[1]).is_some());
}

/// On quiet CPUs, an allreduce takes exactly the time of its rounds.
#[test]
fn rounds_of_quiet_cpus_add_up() {
    let records = [record(0, &[(500_000_000, 1)], 2_000_000_000)];
    let collective = Collective::Allreduce { round_ns: 2_000 };
    let program = BspProgram {
        collective,
        ..barriers(1_000_000)
    };
    let prediction = predicted(&records, program, &[1, 3, 1_024]);
    let found: Vec<f64> = prediction
        .scales
        .iter()
        .map(|it| it.undisturbed_ns)
        .collect();
    assert_eq!(found, [1_000_000.0, 1_004_000.0, 1_020_000.0]);
    let of_gaps = prediction.scales.iter();
    assert!({
        let mut of_gaps = of_gaps.map(|it| it.of_recorded_gaps_ns - it.undisturbed_ns);
        of_gaps.all(|it| it < 1.0)
    });
}

/// A number of ranks that does not fill a host is based on the same number of steps as a full host.
#[test]
fn what_a_part_of_a_host_rests_on_is_known_as_well() {
    let gaps: Vec<(u64, u64)> = (0..1_000).map(|nth| (nth * 1_000_000, 50_000)).collect();
    let records = [
        record(0, &gaps, 1_000_000_000),
        record(1, &gaps, 1_000_000_000),
    ];
    let prediction = predicted(&records, barriers(1_000_000), &[1]);
    assert_eq!(
        (prediction.host_steps, prediction.carried_ranks),
        (950, Some(19))
    );
    assert_eq!(prediction.scales[0].basis, Basis::Recorded);
}
