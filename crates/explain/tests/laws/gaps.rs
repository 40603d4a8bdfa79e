//! The law of gaps. The parts of a budget add up to the gap, the shares add up to the noise, and
//! the same stream gives the same result.

use vmnoise_events::{Event, RunFacts, Share};
use vmnoise_explain::{Explainer, InterferenceColumns, PeriodLine, ReportedHost, Summary};

/// Sums over all budgets, and the lines of all periods.
struct Seen {
    gaps: u64,
    noise_ns: u128,
    periods: Vec<PeriodLine>,
}

fn run(facts: &RunFacts, events: &[Event]) -> (Seen, Summary) {
    let mut explainer = Explainer::new(facts);
    let mut seen = Seen {
        gaps: 0,
        noise_ns: 0,
        periods: Vec::new(),
    };
    let finish = super::finish();
    for event in events.iter().chain([&finish]) {
        explainer.push(event, &mut |budget| {
            let gap = budget.gap().expect("it is a gap");
            seen.gaps += 1;
            seen.noise_ns += u128::from(budget.dur_ns);
            let sum: u128 = budget.parts.iter().map(|part| u128::from(part.ns)).sum();
            assert_eq!(sum, u128::from(budget.dur_ns), "{budget:?}");
            assert!(budget.parts.iter().all(|part| part.ns > 0), "{budget:?}");
            let blames_hardware = budget.ns_of(Share::Hw) + budget.ns_of(Share::HvOrHw) > 0;
            assert!(!(budget.is_incomplete() && blames_hardware), "{budget:?}");
            assert!(budget.parts.is_sorted_by(|a, b| a.ns >= b.ns), "{budget:?}");
            assert!(
                gap.unbounded_kvm_ns <= budget.ns_of(Share::Kvm),
                "{budget:?}"
            );
        });
        if matches!(event, Event::Watermark(_)) {
            seen.periods.extend(explainer.take_period());
        }
    }
    seen.periods.extend(explainer.take_period());
    (seen, explainer.finish())
}

/// Asserts that a run with these events obeys the law.
pub fn obeys_the_law(facts: &RunFacts, events: &[Event]) {
    let (seen, summary) = run(facts, events);
    for cpu in &summary.cpus {
        assert_eq!(cpu.shares_ns.total(), cpu.noise_ns, "{cpu:?}");
        assert!(cpu.max_gap_ns.is_some() == (cpu.gaps > 0), "{cpu:?}");
        assert!(cpu.max_gap_ns.unwrap_or(0) <= cpu.noise_ns, "{cpu:?}");
        assert_eq!(cpu.percentiles_ns.max, cpu.max_gap_ns);
        let of_sources: u128 = cpu
            .sources
            .iter()
            .map(|source| u128::from(source.total_ns))
            .sum();
        assert!(of_sources <= u128::from(cpu.noise_ns), "{cpu:?}");
    }
    let gaps: u64 = summary.cpus.iter().map(|cpu| cpu.gaps).sum();
    let noise_ns: u128 = summary
        .cpus
        .iter()
        .map(|cpu| u128::from(cpu.noise_ns))
        .sum();
    assert_eq!((gaps, noise_ns), (seen.gaps, seen.noise_ns));
    let of_periods = |what: fn(&PeriodLine) -> u64| -> u128 {
        seen.periods.iter().map(|line| u128::from(what(line))).sum()
    };
    assert_eq!(of_periods(|line| line.gaps), u128::from(gaps));
    assert_eq!(of_periods(|line| line.noise_ns), noise_ns);
    assert_eq!(of_periods(|line| line.shares.total()), noise_ns);
    let mut overlaps = InterferenceColumns::default();
    for line in &seen.periods {
        overlaps += line.interference;
    }
    let mut of_run = InterferenceColumns::default();
    for cpu in &summary.cpus {
        of_run += cpu.interference;
        assert!(cpu.interference.hw.unwrap_or(0) <= cpu.gaps, "{cpu:?}");
        assert!(cpu.incomplete_gaps.unwrap_or(0) <= cpu.gaps, "{cpu:?}");
        let guest = cpu.guest_columns;
        let columns = [guest.steal_ns, guest.virt_ns, guest.hw_noise_ns];
        let of_columns: u64 = columns.iter().flatten().sum();
        // A host also counts exits between gaps, so its columns may exceed the noise.
        assert!(cpu.host.is_some() || of_columns <= cpu.noise_ns, "{cpu:?}");
        let lines = seen.periods.iter().filter(|line| line.cpu == cpu.cpu);
        let of_periods = |what: fn(&ReportedHost) -> u64| -> u64 {
            lines
                .clone()
                .filter_map(|line| line.host.as_ref().map(what))
                .sum()
        };
        let of_run =
            |what: fn(&ReportedHost) -> u64| cpu.host.as_ref().map_or(0, |it| what(&it.reported));
        let whats: [fn(&ReportedHost) -> u64; 5] = [
            |reported| reported.exits,
            |reported| reported.heavy,
            |reported| reported.virt_ns,
            |reported| reported.hw_at_least_ns,
            |reported| reported.shares_ns[Share::Preempted].expect("its host watches threads"),
        ];
        for what in whats {
            assert_eq!(of_periods(what), of_run(what), "{cpu:?}");
        }
    }
    // Counters may differ from the activities in gaps, and arbitrary counters go back.
    let counted = |event: &Event| matches!(event, Event::Tally(it) if it.interference.is_some());
    if !events.iter().any(counted) {
        assert_eq!(overlaps.activities(), of_run.activities());
    }
    for worst in summary.worst.iter().chain(&summary.stopped_by) {
        assert_eq!(
            worst.parts.iter().map(|part| part.ns).sum::<u64>(),
            worst.dur_ns
        );
    }
    assert!(summary.complete);

    let (_, again) = run(facts, events);
    let json = |summary| serde_json::to_string(summary).expect("a summary is plain data");
    assert_eq!(json(&summary), json(&again));
}
