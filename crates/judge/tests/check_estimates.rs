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
