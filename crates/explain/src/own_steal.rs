//! Computes the steal inside each activity, without the steal of the activities nested in it.

use vmnoise_events::Activity;

use crate::timeline::LIVE;

/// Scratch memory of the search, reused for each gap.
#[derive(Debug, Default)]
pub(crate) struct OwnSteal {
    /// Activities that have started and may contain the next one.
    open: Vec<usize>,
    /// Steal of the activities nested directly in each activity.
    nested_ns: Vec<u64>,
    own_ns: Vec<u64>,
}

impl OwnSteal {
    /// Returns the own steal of each activity, in nanoseconds. `activities` are in sweep order, and
    /// `net_ns` is the time that each of them owns in the gap. An activity loses at most the time
    /// that it owns, because an activity that extends beyond the gap may have lost its time
    /// outside.
    pub(crate) fn run(&mut self, activities: &[Activity], net_ns: &[u64]) -> &[u64] {
        let Self {
            open,
            nested_ns,
            own_ns,
        } = self;
        own_ns.clear();
        if activities.iter().all(|activity| activity.steal_ns == 0) {
            own_ns.resize(activities.len(), 0);
            return own_ns;
        }
        open.clear();
        nested_ns.clear();
        nested_ns.resize(activities.len(), 0);
        for (index, activity) in activities.iter().enumerate() {
            open.retain(|&earlier| activities[earlier].end_mono_ns > activity.start_mono_ns);
            // No kernel nests more activities. If there are more, the outermost ones contain the
            // rest.
            open.truncate(LIVE);
            // The sweep gives the time of nested activities to the higher kind. Therefore an
            // activity contains only activities of its own kind or of a higher kind.
            let holder = open
                .iter()
                .filter(|&&earlier| activities[earlier].end_mono_ns >= activity.end_mono_ns)
                .filter(|&&earlier| activities[earlier].kind <= activity.kind)
                .max_by_key(|&&earlier| (activities[earlier].kind, earlier));
            if let Some(&holder) = holder {
                nested_ns[holder] = nested_ns[holder].saturating_add(activity.steal_ns);
            }
            open.push(index);
        }
        own_ns.extend(
            activities
                .iter()
                .zip(nested_ns)
                .map(|(activity, nested_ns)| activity.steal_ns.saturating_sub(*nested_ns))
                .zip(net_ns)
                .map(|(own_ns, net_ns)| own_ns.min(*net_ns)),
        );
        own_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::{Sweep, sweep_order};
    use ActivityKind::{Irq, Nmi, Softirq, Thread};
    use vmnoise_events::{ActivityKind, SourceId};

    fn own(gap: (u64, u64), intervals: &[(ActivityKind, u64, u64, u64)]) -> Vec<u64> {
        let activities: Vec<Activity> = intervals
            .iter()
            .map(|&(kind, start_mono_ns, end_mono_ns, steal_ns)| Activity {
                cpu: 0,
                kind,
                start_mono_ns,
                end_mono_ns,
                source: SourceId(0),
                steal_ns,
            })
            .collect();
        assert!(activities.is_sorted_by_key(sweep_order));
        let mut sweep = Sweep::default();
        sweep.run(gap.0, gap.1, &activities);
        OwnSteal::default()
            .run(&activities, sweep.net_ns())
            .to_vec()
    }

    #[test]
    fn each_layer_has_its_own_and_not_that_of_what_it_holds() {
        let nested = [
            (Thread, 0, 100, 60),
            (Softirq, 10, 90, 45),
            (Irq, 20, 80, 30),
            (Nmi, 30, 70, 10),
        ];
        assert_eq!(own((0, 100), &nested), [15, 15, 20, 10]);
    }

    #[test]
    fn neighbours_are_deducted_each_from_the_one_around_them() {
        let stream = [
            (Thread, 0, 100, 30),
            (Irq, 10, 20, 5),
            (Irq, 20, 40, 10),
            (Irq, 90, 110, 10),
        ];
        // The last activity ends after the thread, so the thread keeps all of its steal.
        assert_eq!(own((0, 200), &stream), [15, 5, 10, 10]);
    }

    #[test]
    fn nobody_loses_more_than_it_owns_or_less_than_nothing() {
        assert_eq!(own((10, 20), &[(Irq, 0, 15, 9)]), [5]);
        assert_eq!(
            own((0, 100), &[(Thread, 0, 50, 3), (Irq, 10, 20, 7)]),
            [0, 7]
        );
    }
}
