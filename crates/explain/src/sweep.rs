//! Divides a gap among the activities that overlap it. At every instant, the activity of the
//! highest kind owns the time. Of two activities of one kind, the activity that started later owns
//! the time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use vmnoise_events::{Activity, ActivityKind};

/// Returns the sort key of a sweep. Activities are sorted by start. Of two activities that start
/// together, the longer comes first, because the shorter is nested in it. The other fields make the
/// order independent of the order of arrival.
pub(crate) fn sweep_order(activity: &Activity) -> impl Ord + use<> {
    let Activity {
        start_mono_ns,
        end_mono_ns,
        kind,
        source,
        steal_ns,
        cpu: _,
    } = *activity;
    (start_mono_ns, Reverse(end_mono_ns), kind, source, steal_ns)
}

/// Scratch memory of the sweep, reused for each gap.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    open: BinaryHeap<(ActivityKind, usize)>,
    net_ns: Vec<u64>,
}

impl Sweep {
    /// Sweeps `start_ns..end_ns`. `activities` are in [`sweep_order`]. Returns the nanoseconds that
    /// no activity owns. [`Sweep::net_ns`] returns the time that each activity owns.
    pub(crate) fn run(&mut self, start_ns: u64, end_ns: u64, activities: &[Activity]) -> u64 {
        self.slice(start_ns, end_ns, activities, |_, _, _| {})
    }

    /// Sweeps like [`Self::run`], and passes each slice of time to `on_slice`, in time order. The
    /// arguments of `on_slice` are the index of the activity that owns the slice, or `None`, and
    /// the start and end of the slice.
    pub(crate) fn slice(
        &mut self,
        start_ns: u64,
        end_ns: u64,
        activities: &[Activity],
        mut on_slice: impl FnMut(Option<usize>, u64, u64),
    ) -> u64 {
        self.open.clear();
        self.net_ns.clear();
        self.net_ns.resize(activities.len(), 0);
        let mut next = 0;
        let mut now_ns = start_ns;
        let mut residual_ns = 0;
        while now_ns < end_ns {
            while let Some(begun) = activities.get(next).filter(|a| a.start_mono_ns <= now_ns) {
                self.open.push((begun.kind, next));
                next += 1;
            }
            let next_begin_ns = activities.get(next).map_or(end_ns, |a| a.start_mono_ns);
            let until_ns = next_begin_ns.min(end_ns);
            match self.open.peek() {
                Some(&(_, owner)) if activities[owner].end_mono_ns <= now_ns => {
                    self.open.pop();
                }
                Some(&(_, owner)) => {
                    let until_ns = until_ns.min(activities[owner].end_mono_ns);
                    self.net_ns[owner] += until_ns - now_ns;
                    on_slice(Some(owner), now_ns, until_ns);
                    now_ns = until_ns;
                }
                None => {
                    residual_ns += until_ns - now_ns;
                    on_slice(None, now_ns, until_ns);
                    now_ns = until_ns;
                }
            }
        }
        residual_ns
    }

    /// Returns the time that each activity of the last sweep owns, in nanoseconds, in the order of
    /// the activities.
    pub(crate) fn net_ns(&self) -> &[u64] {
        &self.net_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ActivityKind::{Blocked, Exit, Irq, Nmi, Softirq, Thread, Vmm};
    use vmnoise_events::SourceId;

    fn swept(gap: (u64, u64), intervals: &[(ActivityKind, u64, u64)]) -> (Vec<u64>, u64) {
        let activities: Vec<Activity> = intervals
            .iter()
            .map(|&(kind, start_mono_ns, end_mono_ns)| Activity {
                cpu: 0,
                kind,
                start_mono_ns,
                end_mono_ns,
                source: SourceId(0),
                steal_ns: 0,
            })
            .collect();
        assert!(activities.is_sorted_by_key(sweep_order));
        let mut sweep = Sweep::default();
        let residual = sweep.run(gap.0, gap.1, &activities);
        (sweep.net_ns().to_vec(), residual)
    }

    #[test]
    fn irq_in_softirq_in_thread_in_exit_is_net_of_each() {
        let nested = [
            (Exit, 10, 90),
            (Thread, 20, 80),
            (Softirq, 30, 70),
            (Irq, 40, 60),
            (Nmi, 45, 50),
        ];
        assert_eq!(swept((0, 100), &nested), (vec![20, 20, 20, 15, 5], 20));
    }

    #[test]
    fn an_interrupt_that_outlives_its_thread_keeps_its_time() {
        assert_eq!(
            swept((0, 100), &[(Thread, 0, 50), (Irq, 40, 70)]),
            (vec![40, 30], 30)
        );
    }

    #[test]
    fn sleeping_outranks_who_ran_meanwhile() {
        assert_eq!(
            swept(
                (0, 100),
                &[(Vmm, 0, 100), (Thread, 10, 60), (Blocked, 20, 90)]
            )
            .0,
            [20, 10, 70]
        );
    }

    #[test]
    fn of_equal_kinds_the_later_begun_owns() {
        assert_eq!(
            swept((0, 100), &[(Irq, 0, 100), (Irq, 30, 40)]),
            (vec![90, 10], 0)
        );
        assert_eq!(
            swept((0, 100), &[(Irq, 0, 60), (Irq, 0, 10)]),
            (vec![50, 10], 40)
        );
    }

    #[test]
    fn only_what_lies_in_the_gap_counts() {
        assert_eq!(
            swept((10, 20), &[(Irq, 0, 12), (Irq, 18, 90)]),
            (vec![2, 2], 6)
        );
        assert_eq!(swept((10, 20), &[(Irq, 15, 15)]), (vec![0], 10));
        assert_eq!(swept((10, 10), &[(Irq, 0, 90)]), (vec![0], 0));
    }
}
