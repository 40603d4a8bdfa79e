//! The law of wake-ups. The parts of a wake-up add up to its latency, and the parts of a phase to
//! the phase. The sums of all CPUs add up to all latencies.

use vmnoise_events::{Event, RunFacts};
use vmnoise_explain::{CpuWakeups, Explainer, Interval, LatencyFigures, Phase, Summary};

/// Explains these events. Returns all wake-ups, and the summary.
pub fn run(facts: &RunFacts, events: &[Event]) -> (Vec<Interval>, Summary) {
    let mut explainer = Explainer::with_trace(facts);
    let mut wakeups = Vec::new();
    for event in events.iter().chain([&super::finish()]) {
        explainer.push(event, &mut |wakeup| wakeups.push(wakeup.clone()));
        explainer.take_trace();
    }
    (wakeups, explainer.finish())
}

/// Asserts that a run with these events obeys the law.
pub fn obeys_the_law(facts: &RunFacts, events: &[Event]) {
    let (wakeups, summary) = run(facts, events);
    let mut total_ns = 0u128;
    for interval in &wakeups {
        let wakeup = interval.wakeup().expect("nobody feels gaps");
        let of = |phase: Option<Phase>| -> u128 {
            let parts = interval.parts.iter().filter(|part| part.phase == phase);
            parts.map(|part| u128::from(part.ns)).sum()
        };
        for phase in Phase::ALL {
            let phase_ns = wakeup.phase_ns(phase).map_or(0, u128::from);
            assert_eq!(of(Some(phase)), phase_ns, "{interval:?}");
        }
        assert_eq!(of(None), u128::from(wakeup.unsplit_ns), "{interval:?}");
        let parts = interval.parts.iter().map(|part| u128::from(part.ns));
        assert_eq!(parts.sum::<u128>(), interval.dur_ns.into(), "{interval:?}");
        assert!(
            interval.parts.iter().all(|part| part.ns > 0),
            "{interval:?}"
        );
        assert!(wakeup.irq_ns.is_none_or(|ns| ns <= interval.dur_ns));
        assert!(wakeup.thread_ns.is_none_or(|ns| ns <= interval.dur_ns));
        total_ns += u128::from(interval.dur_ns);
    }
    let result = summary.wakeups.as_ref().expect("tasks were measured");
    let sum = |of: fn(&CpuWakeups) -> u128| result.cpus.iter().map(of).sum();
    let counted: u128 = sum(|cpu| cpu.count.into());
    assert_eq!(counted, wakeups.len() as u128);
    let shares: u128 = sum(|cpu| cpu.shares_ns.total().into());
    assert_eq!(shares, total_ns);
    let phases: u128 = sum(|cpu| {
        let phases = &cpu.phases_ns;
        let split = [
            phases.armed_late,
            phases.irq,
            phases.handler,
            phases.wakeup,
            phases.return_,
        ];
        let split = split.iter().flatten().map(|ns| u128::from(*ns));
        split.sum::<u128>() + u128::from(phases.unsplit)
    });
    assert_eq!(phases, total_ns);
    for cpu in &result.cpus {
        let (observed, corrected) = (cpu.user, cpu.corrected);
        let max = |figures: Option<LatencyFigures>| figures.map(|it| it.max_ns);
        assert_eq!(max(observed), max(corrected));
        let count = |counts: &[(u64, u64)]| counts.iter().map(|(_, count)| count).sum::<u64>();
        assert_eq!(count(&cpu.distribution), cpu.count);
        assert!(count(&cpu.corrected_distribution) >= cpu.count);
    }
    for worst in result.worst.iter().chain(&result.stopped_by) {
        let parts = worst.parts.iter().map(|part| part.ns);
        assert_eq!(parts.sum::<u64>(), worst.dur_ns);
    }
    let (again, _) = run(facts, events);
    assert_eq!(wakeups, again);
}
