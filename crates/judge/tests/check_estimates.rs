//! Verdicts on the worst CPU, and on quantities that a run can only estimate.

use vmnoise_events::fixtures::by_hand::{anchor, finish, gap, polling_in_a_machine};
use vmnoise_events::{CpuTally, Event, Gap, RunFacts};
use vmnoise_judge::check::{Budget, BudgetLimitResult, LimitVerdict, Reason};

use crate::check::{SECOND_NS, judge_run, limit};

/// Makes a run of this number of seconds on two CPUs. In each period of 20 ms, each CPU has one
/// gap. `length_ns` returns the gap's length for a CPU and the period's number.
fn on_cpus(seconds: u64, length_ns: impl Fn(u32, u64) -> u64) -> (RunFacts, Vec<Event>) {
    const CPUS: [u32; 2] = [1, 2];
    const TICK_NS: u64 = SECOND_NS / 50;
    let mut facts = polling_in_a_machine();
    facts.options.cpus = CPUS.to_vec();
    let mut events = vec![anchor(0), Event::Watermark(0)];
    for tick in 1..=seconds * 50 {
        let now = tick * TICK_NS;
        for cpu in CPUS {
            let end_tsc = now - TICK_NS / 2;
            events.push(Event::Gap(Gap {
                cpu,
                ..gap(end_tsc - length_ns(cpu, tick), end_tsc)
            }));
        }
        events.push(anchor(now));
        events.extend(CPUS.map(|cpu| {
            Event::Tally(CpuTally {
                cpu,
                last_tsc: now,
                blind_tsc: Some(0),
                ..CpuTally::default()
            })
        }));
        events.push(Event::Watermark(now));
    }
    events.push(finish());
    (facts, events)
}

fn judged_on_cpus(
    name: &str,
    at_most: f64,
    seconds: u64,
    length_ns: impl Fn(u32, u64) -> u64,
) -> BudgetLimitResult {
    let (facts, events) = on_cpus(seconds, length_ns);
    let budget = Budget {
        requirements: vec![limit(name, at_most)],
        runtime_ns: None,
    };
    judge_run(&facts, &events, &budget).judgements[0].clone()
}

/// One CPU loses 7 % of its time, and the other almost nothing. The average is half of this, so a
/// limit between half and 7 % is broken on one CPU only.
#[test]
fn the_worst_cpu_decides() {
    let length_ns = |cpu: u32, _| if cpu == 2 { 1_400_000 } else { 2_000 };
    for (name, at_most, verdict) in [
        ("noise", 5.0, LimitVerdict::Fail),
        ("noise", 7.5, LimitVerdict::Pass),
        ("p90", 1_000_000.0, LimitVerdict::Fail),
        ("gaps>1ms", 40.0, LimitVerdict::Fail),
        ("max", 1_500_000.0, LimitVerdict::Pass),
    ] {
        let judgement = judged_on_cpus(name, at_most, 60, length_ns);
        assert_eq!(
            (judgement.verdict, judgement.cpu),
            (verdict, Some(2)),
            "{name} {judgement:?}"
        );
    }
}

/// More short gaps make the long gaps a smaller part of all gaps. The rate of long gaps per second
/// stays the same.
#[test]
fn a_rate_is_not_kept_by_more_short_gaps() {
    // Two gaps per second are long: one in 25.
    let few = |_, nth: u64| if nth % 25 == 3 { 100_000 } else { 2_000 };
    assert_eq!(
        judged_on_cpus("gaps>50us", 1.0, 60, few).verdict,
        LimitVerdict::Fail
    );
    assert_eq!(
        judged_on_cpus("p99", 50_000.0, 60, few).verdict,
        LimitVerdict::Fail
    );
    let kept = judged_on_cpus("gaps>50us", 4.0, 60, few);
    assert_eq!(kept.verdict, LimitVerdict::Pass, "{kept:?}");
    assert_eq!(kept.value.map(f64::round), Some(2.0));
}

/// A short run without long gaps may have missed bursts. A long run excludes them.
#[test]
fn a_short_run_without_long_gaps_does_not_exclude_bursts_of_them() {
    let short = |_, _| 2_000;
    // 20 s on a CPU are 200 cells of 100 ms. If none of them is bad, up to -ln(1/200) / 200 = 2.6 %
    // of all cells may be bad. p99 allows 1 %.
    let judgement = judged_on_cpus("p99", 50_000.0, 20, short);
    let [
        Reason::Unmet {
            windows: 0,
            needed_ns: Some(needed_ns),
            ..
        },
    ] = judgement.reasons[..]
    else {
        panic!("{judgement:?}");
    };
    // The risk of 1 % is divided between two CPUs: -ln 200 / ln 0.99 = 527 cells of 100 ms are
    // needed.
    assert!((50..60).contains(&(needed_ns / SECOND_NS)), "{needed_ns}");
    let kept = judged_on_cpus("p99", 50_000.0, 60, short);
    assert_eq!(kept.verdict, LimitVerdict::Pass, "{kept:?}");
    let burst_ns = Some(100_000_000);
    let above_ns = 50_000;
    assert_eq!(kept.reasons, [Reason::Assuming { above_ns, burst_ns }]);
}

/// Returns the verdict on gaps above 20 us, if a recorder with this threshold records the run.
fn judged_above(
    threshold_ns: u64,
    at_most: f64,
    (facts, events): &(RunFacts, Vec<Event>),
) -> BudgetLimitResult {
    let mut facts = facts.clone();
    facts.options.threshold_ns = threshold_ns;
    let is_recorded = |it: &&Event| match it {
        Event::Gap(gap) => gap.end_tsc - gap.start_tsc >= threshold_ns,
        _ => true,
    };
    let events: Vec<Event> = events.iter().filter(is_recorded).cloned().collect();
    let budget = Budget {
        requirements: vec![limit("gaps>20us", at_most)],
        runtime_ns: None,
    };
    judge_run(&facts, &events, &budget).judgements[0].clone()
}

/// A recording with a higher threshold has fewer gaps. So it shows less about bursts, and never
/// more.
#[test]
fn a_higher_threshold_makes_no_rate_firmer() {
    const THRESHOLDS_NS: [u64; 3] = [500, 1_000, 20_000];
    // Each CPU has 50 gaps per second, which are 5 in a cell of 100 ms. In the second world, a
    // threshold of 1 us leaves 5 per second. In the third world, 2 per second are long.
    let worlds: [fn(u32, u64) -> u64; 3] = [
        |_, _| 2_000,
        |_, nth| if nth % 10 == 0 { 2_000 } else { 800 },
        |_, nth| if nth % 25 == 3 { 100_000 } else { 2_000 },
    ];
    for (world, length_ns) in worlds.into_iter().enumerate() {
        let run = on_cpus(10, length_ns);
        for at_most in [1.0, 4.0, 100.0] {
            let judged = THRESHOLDS_NS.map(|it| judged_above(it, at_most, &run).verdict);
            for pair in judged.windows(2) {
                let is_firmer = pair[1] != pair[0] && pair[1] != LimitVerdict::CannotTell;
                assert!(!is_firmer, "{world} {at_most}: {judged:?}");
            }
        }
    }
    // Long gaps in 20 of 40 windows show how they come, whatever the threshold is.
    let noisy = on_cpus(10, worlds[2]);
    let judged = THRESHOLDS_NS.map(|it| judged_above(it, 100.0, &noisy).verdict);
    assert_eq!(judged, [LimitVerdict::Pass; 3]);
}

/// Returns the length in seconds of a run that would have met bursts of gaps above 20 us.
fn needed_s(threshold_ns: u64, run: &(RunFacts, Vec<Event>)) -> u64 {
    match judged_above(threshold_ns, 1.0, run).reasons[..] {
        [
            Reason::Unmet {
                needed_ns: Some(needed_ns),
                ..
            },
        ] => needed_ns / SECOND_NS,
        ref reasons => panic!("{reasons:?}"),
    }
}

/// A cell of 100 ms has 5 gaps. If all 5 may be long, one long gap per second is one bad cell in
/// 50. The risk of 1 % is divided between two CPUs. So -ln 200 / ln 0.98 = 262 cells without a bad
/// cell are needed, which are 26.2 s.
#[test]
fn the_density_of_gaps_decides_how_long_a_run_must_be() {
    let run = on_cpus(10, |_, _| 2_000);
    assert_eq!(needed_s(1_000, &run), 26);
}

/// A threshold of 20 us hides how close together gaps come. Up to 5,000 gaps above 20 us fit into a
/// cell. So one long gap per second may be one bad cell in 50,000: -ln 200 / ln(1 - 1/50,000) =
/// 264,913 cells are needed.
#[test]
fn without_the_density_of_gaps_a_bad_cell_may_be_full() {
    let run = on_cpus(10, |_, _| 2_000);
    assert_eq!(needed_s(20_000, &run), 26_491);
}
