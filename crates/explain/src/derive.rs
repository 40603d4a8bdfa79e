//! Derives the gaps of an observed thread from the activities on its CPU, because no workload
//! observes them.

use vmnoise_events::{Activity, ActivityKind};

use ActivityKind::{Blocked, Exit, Irq, Nmi, Softirq, Stopped, Thread, Throttled, Vmm};

/// Minimum time between two activities for which the thread counts as running between them.
const HOLE_NS: u64 = 1_000;
/// Maximum time from the end of an interrupt to the softirq or switch that it caused. In this time
/// the kernel keeps the CPU, and no event reports it (docs/internals/gaps.md explains the value).
const WAY_NS: u64 = 20_000;

/// Finder of gaps. A gap is a maximal run of activities without a hole.
#[derive(Debug, Default)]
pub(crate) struct Derivation {
    /// End of the last returned gap, CLOCK_MONOTONIC in nanoseconds.
    reported_to_ns: u64,
}

impl Derivation {
    /// Returns the start and end of the gaps that no later activity can change, sorted and without
    /// overlap. `activities` are sorted by start. Later activities start at `certain_to_ns` or
    /// later. An activity that nevertheless arrives too late is cut to start at the end of the last
    /// returned gap.
    pub(crate) fn gaps(&mut self, activities: &[Activity], certain_to_ns: u64) -> Vec<(u64, u64)> {
        let mut gaps: Vec<(u64, u64)> = Vec::new();
        // Kind of the activity that ends the last gap.
        let mut last_kind = Thread;
        let is_certain = |end_ns: u64| end_ns.saturating_add(WAY_NS) <= certain_to_ns;
        for activity in activities.iter().filter(|it| takes_time(it.kind)) {
            let start_ns = activity.start_mono_ns.max(self.reported_to_ns);
            let ends_at_ns = activity.end_mono_ns;
            if ends_at_ns <= start_ns {
                continue;
            }
            let hole_ns = hole_ns(last_kind, activity.kind);
            match gaps.last_mut() {
                Some((_, end_ns)) if start_ns < end_ns.saturating_add(hole_ns) => {
                    if ends_at_ns <= *end_ns {
                        continue;
                    }
                    *end_ns = ends_at_ns;
                }
                _ => gaps.push((start_ns, ends_at_ns)),
            }
            last_kind = activity.kind;
            // No activity after this one is final either.
            if !is_certain(ends_at_ns) {
                break;
            }
        }
        gaps.truncate(gaps.partition_point(|(_, end_ns)| is_certain(*end_ns)));
        if let Some(&(_, end_ns)) = gaps.last() {
            self.reported_to_ns = end_ns;
        }
        gaps
    }

    /// Returns the end of the last gap that [`Derivation::gaps`] returned. Activities that ended by
    /// this time are no longer needed.
    pub(crate) fn reported_to_ns(&self) -> u64 {
        self.reported_to_ns
    }
}

/// Returns whether the activity takes time from the thread. An exit belongs to a vCPU, and a thread
/// that chooses to sleep loses nothing.
fn takes_time(kind: ActivityKind) -> bool {
    match kind {
        Nmi | Irq | Softirq | Thread | Throttled => true,
        Exit | Vmm | Blocked | Stopped => false,
    }
}

/// Returns the minimum time between these two activities for which the thread counts as running
/// between them.
fn hole_ns(before: ActivityKind, after: ActivityKind) -> u64 {
    match (before, after) {
        (Nmi | Irq | Softirq, Softirq | Thread | Throttled) => WAY_NS,
        _ => HOLE_NS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmnoise_events::SourceId;

    fn activity((kind, start_mono_ns, end_mono_ns): (ActivityKind, u64, u64)) -> Activity {
        Activity {
            cpu: 0,
            kind,
            start_mono_ns,
            end_mono_ns,
            source: SourceId(0),
            steal_ns: 0,
        }
    }

    fn gaps(activities: &[(ActivityKind, u64, u64)]) -> Vec<(u64, u64)> {
        let activities: Vec<Activity> = activities.iter().copied().map(activity).collect();
        Derivation::default().gaps(&activities, u64::MAX)
    }

    #[test]
    fn the_way_on_from_an_interrupt_is_no_hole_but_the_way_back_is() {
        let are_one = |before, hole_ns, after| {
            let second = 5_000 + hole_ns;
            let found = gaps(&[(before, 1_000, 5_000), (after, second, 90_000)]);
            let one = found == [(1_000, 90_000)];
            assert!(one || found == [(1_000, 5_000), (second, 90_000)]);
            one
        };
        for (before, after) in [(Irq, Softirq), (Softirq, Thread), (Irq, Throttled)] {
            assert!(are_one(before, WAY_NS - 1, after) && !are_one(before, WAY_NS, after));
        }
        for (before, after) in [(Thread, Softirq), (Irq, Irq), (Softirq, Nmi)] {
            assert!(are_one(before, HOLE_NS - 1, after) && !are_one(before, HOLE_NS, after));
        }
    }

    #[test]
    fn the_activity_that_ends_last_ends_the_gap() {
        let nested = [(Thread, 1_000, 90_000), (Irq, 2_000, 3_000)];
        assert_eq!(gaps(&nested), [(1_000, 90_000)]);
        let back = [
            (Thread, 0, 9_000),
            (Irq, 2_000, 3_000),
            (Softirq, 11_000, 12_000),
        ];
        assert_eq!(gaps(&back), [(0, 9_000), (11_000, 12_000)]);
        assert_eq!(gaps(&[(Blocked, 0, 50_000), (Irq, 7, 7)]), []);
    }

    #[test]
    fn a_gap_is_reported_once_nothing_can_join_it() {
        let activities = [(Irq, 1_000, 2_000), (Irq, 29_000, 29_500)].map(activity);
        let mut derivation = Derivation::default();
        let too_early = derivation.gaps(&activities, 2_000 + WAY_NS - 1);
        assert_eq!(too_early, []);
        let in_time = derivation.gaps(&activities, 2_000 + WAY_NS);
        assert_eq!(in_time, [(1_000, 2_000)]);
        // The first activity arrives too late.
        let late = [activity((Thread, 500, 4_000)), activities[0], activities[1]];
        let rest = derivation.gaps(&late, u64::MAX);
        assert_eq!(rest, [(2_000, 4_000), (29_000, 29_500)]);
        assert_eq!(derivation.reported_to_ns(), 29_500);
    }
}
