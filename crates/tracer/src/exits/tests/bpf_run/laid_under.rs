//! Tests that the split of an exit follows exactly from the records that are reported for the exit.

use proptest::prelude::*;
use vmnoise_events::{Activity, ActivityKind, Event, Exit, Share, ShareMap, VcpuInterval};
use vmnoise_events::{VcpuId, VcpuIntervalKind as Kind};

use super::harness::Handlers;
use super::{life, lives};

/// Returns the share that owns an instant of an exit. Work of the host on the thread's CPU takes
/// precedence over the state of the thread.
fn owner(
    split: &mut ShareMap<u64>,
    does: impl Fn(ActivityKind) -> bool,
    is: impl Fn(Kind) -> bool,
) -> &mut u64 {
    if is(Kind::Blocked) && is(Kind::Halted) {
        &mut split[Share::Halted]
    } else if does(ActivityKind::Nmi) {
        &mut split[Share::HostNmi]
    } else if does(ActivityKind::Irq) {
        &mut split[Share::HostIrq]
    } else if does(ActivityKind::Softirq) {
        &mut split[Share::HostSoftirq]
    } else if is(Kind::Blocked) {
        &mut split[Share::Blocked]
    } else if is(Kind::Waiting) && does(ActivityKind::Throttled) {
        &mut split[Share::Throttled]
    } else if is(Kind::Waiting) {
        &mut split[Share::Preempted]
    } else if is(Kind::Halted) {
        &mut split[Share::Halted]
    } else if is(Kind::Vmm) {
        &mut split[Share::Vmm]
    } else {
        &mut split[Share::Kvm]
    }
}

fn is_off(interval: &&VcpuInterval) -> bool {
    matches!(interval.kind, Kind::Waiting | Kind::Blocked)
}

/// Returns the split of an exit. The exit is cut at the begin and end of each interval and
/// activity.
fn overlay_under(
    exit: &Exit,
    activities: &[Activity],
    intervals: &[VcpuInterval],
) -> ShareMap<u64> {
    let does = activities
        .iter()
        .map(|it| (it.start_mono_ns, it.end_mono_ns));
    let is = intervals
        .iter()
        .map(|it| (it.start_mono_ns, it.end_mono_ns));
    let mut cuts: Vec<u64> = does
        .chain(is)
        .flat_map(|(start, end)| [start, end])
        .filter(|at| (exit.start_mono_ns..exit.end_mono_ns).contains(at))
        .chain([exit.start_mono_ns, exit.end_mono_ns])
        .collect();
    cuts.sort_unstable();
    let mut split = ShareMap::default();
    for piece in cuts.windows(2) {
        let covers = |start, end| start <= piece[0] && piece[1] <= end;
        let states: Vec<_> = intervals
            .iter()
            .filter(|it| covers(it.start_mono_ns, it.end_mono_ns))
            .collect();
        // The CPU for which the thread waits, or else the CPU on which its last wait ended.
        let off = states.iter().copied().find(is_off).map(|it| it.cpu);
        let back = intervals
            .iter()
            .filter(is_off)
            .filter(|it| exit.start_mono_ns <= it.start_mono_ns && it.end_mono_ns <= piece[0]);
        let back = back.max_by_key(|it| it.end_mono_ns).map(|it| it.to_cpu);
        let cpu = off.or(back).unwrap_or(exit.exit_cpu);
        let work: Vec<_> = activities
            .iter()
            .filter(|it| it.cpu == cpu && covers(it.start_mono_ns, it.end_mono_ns))
            .map(|it| it.kind)
            .collect();
        let is = |kind| states.iter().any(|state| state.kind == kind);
        *owner(&mut split, |kind| work.contains(&kind), is) += piece[1] - piece[0];
    }
    split
}

#[test]
fn what_is_reported_gives_the_split_again() {
    let handlers = Handlers::new();
    let lives = (any::<u64>(), lives::choices(0..80, false));
    lives::hold(20_000, &lives, |(begins, choices)| {
        let moments = life::live(begins, &choices, false);
        let reported = handlers.live(&moments);
        let activities: Vec<Activity> = reported
            .iter()
            .filter_map(|event| match event {
                Event::Activity(activity) => Some(*activity),
                _ => None,
            })
            .collect();
        let intervals = |vcpu: VcpuId| -> Vec<VcpuInterval> {
            let reported = reported.iter().filter_map(|event| match event {
                Event::VcpuInterval(interval) => Some(*interval),
                _ => None,
            });
            reported.filter(|interval| interval.vcpu == vcpu).collect()
        };
        for event in &reported {
            if let Event::Exit(reported) = event {
                let overlaid =
                    overlay_under(&reported.exit, &activities, &intervals(reported.vcpu));
                prop_assert_eq!(
                    overlaid,
                    reported.exit.split,
                    "{:?}\n{:#?}",
                    reported,
                    moments
                );
            }
        }
        Ok(())
    });
}
