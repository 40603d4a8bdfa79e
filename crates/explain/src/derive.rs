//! The gaps of an observed thread, which nobody feels: what the activities on its CPU
//! leave of its time.

use vmnoise_events::{Activity, ActivityKind};

/// Between two activities that are closer, the thread had no time of its own: that is
/// the way through the kernel from one tracepoint to the next (docs/design.md).
pub(crate) const HOLE_NS: u64 = 1_000;

/// Finds one gap after another: maximal runs of activities without a hole.
#[derive(Debug, Default)]
pub(crate) struct Derivation {
    /// Every gap that ended by this instant (CLOCK_MONOTONIC, ns) has been told.
    told_to_ns: u64,
}

impl Derivation {
    /// Begin and end of the gaps that no later activity can change, in their order and
    /// without overlap. `activities` are in the order of their begins; those still to
    /// come begin at `certain_to_ns` or later. One that comes too late all the same
    /// begins where the last gap has ended.
    pub(crate) fn gaps(&mut self, activities: &[Activity], certain_to_ns: u64) -> Vec<(u64, u64)> {
        let mut gaps: Vec<(u64, u64)> = Vec::new();
        for activity in activities
            .iter()
            .filter(|activity| takes_time(activity.kind))
        {
            let start_ns = activity.start_mono_ns.max(self.told_to_ns);
            if activity.end_mono_ns <= start_ns {
                continue;
            }
            match gaps.last_mut() {
                Some((_, end_ns)) if start_ns < end_ns.saturating_add(HOLE_NS) => {
                    *end_ns = activity.end_mono_ns.max(*end_ns);
                }
                _ => gaps.push((start_ns, activity.end_mono_ns)),
            }
        }
        let is_certain =
            |&(_, end_ns): &(u64, u64)| end_ns.saturating_add(HOLE_NS) <= certain_to_ns;
        gaps.truncate(gaps.partition_point(is_certain));
        if let Some(&(_, end_ns)) = gaps.last() {
            self.told_to_ns = end_ns;
        }
        gaps
    }

    /// See [`Derivation::gaps`]: what ended by then is needed no more.
    pub(crate) fn told_to_ns(&self) -> u64 {
        self.told_to_ns
    }
}

/// Exits are a vCPU's, and a thread that sleeps by itself loses nothing.
fn takes_time(kind: ActivityKind) -> bool {
    match kind {
        ActivityKind::Nmi
        | ActivityKind::Irq
        | ActivityKind::Softirq
        | ActivityKind::Thread
        | ActivityKind::Throttled => true,
        ActivityKind::Exit | ActivityKind::Vmm | ActivityKind::Blocked => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ActivityKind::{Blocked, Irq, Softirq, Thread};
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

    fn gaps(certain_to_ns: u64, activities: &[(ActivityKind, u64, u64)]) -> Vec<(u64, u64)> {
        let activities: Vec<Activity> = activities.iter().copied().map(activity).collect();
        Derivation::default().gaps(&activities, certain_to_ns)
    }

    #[test]
    fn the_way_from_an_interrupt_to_its_soft_interrupt_is_no_hole() {
        let near = 5_000 + HOLE_NS - 1;
        let one = [(Irq, 1_000, 5_000), (Softirq, near, 8_000)];
        assert_eq!(gaps(u64::MAX, &one), [(1_000, 8_000)]);
        let two = [(Irq, 1_000, 5_000), (Softirq, near + 1, 8_000)];
        assert_eq!(gaps(u64::MAX, &two), [(1_000, 5_000), (near + 1, 8_000)]);
    }

    #[test]
    fn the_outermost_activity_ends_the_gap() {
        let nested = [(Thread, 1_000, 90_000), (Irq, 2_000, 3_000)];
        assert_eq!(gaps(u64::MAX, &nested), [(1_000, 90_000)]);
        assert_eq!(gaps(u64::MAX, &[(Blocked, 0, 50_000), (Irq, 7, 7)]), []);
    }

    #[test]
    fn a_gap_is_told_once_nothing_can_join_it() {
        let activities: Vec<_> = [(Irq, 1_000, 2_000), (Irq, 9_000, 9_500)]
            .map(activity)
            .to_vec();
        let mut derivation = Derivation::default();
        assert_eq!(derivation.gaps(&activities, 2_000 + HOLE_NS - 1), []);
        assert_eq!(
            derivation.gaps(&activities, 2_000 + HOLE_NS),
            [(1_000, 2_000)]
        );
        // This one was promised to begin later.
        let late = [activity((Thread, 500, 4_000)), activities[0], activities[1]];
        assert_eq!(
            derivation.gaps(&late, u64::MAX),
            [(2_000, 4_000), (9_000, 9_500)]
        );
        assert_eq!(derivation.told_to_ns(), 9_500);
    }
}
