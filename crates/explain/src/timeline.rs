//! The activities of one CPU that a gap may still need, in order.

use vmnoise_events::Activity;

use crate::sweep::sweep_order;

/// Activities kept while no gap or tally shows that they are over (4 MiB). A
/// longer memory would only serve a gap that holds more activities than this.
pub(crate) const KEPT: usize = 1 << 17;

#[derive(Debug, Default)]
pub(crate) struct Timeline {
    activities: Vec<Activity>,
    forgotten_to_ns: u64,
    /// Of the pass under way: the first activity that begins after every gap so
    /// far, and those before it that may reach into the next gap.
    cursor: usize,
    live: Vec<Activity>,
}

impl Timeline {
    pub(crate) fn push(&mut self, activity: Activity) {
        self.activities.push(activity);
    }

    /// Starts a pass over gaps in the order of their begins.
    pub(crate) fn begin_pass(&mut self) {
        // Stable sorting is adaptive: the drained order is nearly sorted already.
        self.activities.sort_by_key(sweep_order);
        self.cursor = 0;
        self.live.clear();
    }

    /// All activities, in the order of their begins during a pass.
    pub(crate) fn activities(&self) -> &[Activity] {
        &self.activities
    }

    /// What overlaps the next gap, in sweep order.
    pub(crate) fn overlapping(&mut self, start_ns: u64, end_ns: u64) -> &[Activity] {
        self.live.retain(|activity| activity.end_mono_ns > start_ns);
        while let Some(activity) = self.activities.get(self.cursor)
            && activity.start_mono_ns < end_ns
        {
            if activity.end_mono_ns > start_ns {
                self.live.push(*activity);
            }
            self.cursor += 1;
        }
        let begun = self
            .live
            .partition_point(|activity| activity.start_mono_ns < end_ns);
        &self.live[..begun]
    }

    /// Ends the pass: what ended by `settled_ns` can overlap no later gap.
    pub(crate) fn end_pass(&mut self, settled_ns: u64) {
        self.forgotten_to_ns = self.forgotten_to_ns.max(settled_ns);
        self.activities
            .retain(|activity| activity.end_mono_ns > settled_ns);
        if let Some(excess) = self.activities.len().checked_sub(KEPT) {
            for activity in self.activities.drain(..excess) {
                self.forgotten_to_ns = self.forgotten_to_ns.max(activity.end_mono_ns);
            }
        }
    }

    /// Whether activities of a gap that begins at `start_ns` may be forgotten.
    pub(crate) fn has_forgotten(&self, start_ns: u64) -> bool {
        start_ns < self.forgotten_to_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmnoise_events::{ActivityKind, SourceId};

    fn irq(start_mono_ns: u64, end_mono_ns: u64) -> Activity {
        let (kind, source) = (ActivityKind::Irq, SourceId(0));
        Activity {
            cpu: 0,
            kind,
            start_mono_ns,
            end_mono_ns,
            source,
            steal_ns: 0,
        }
    }

    #[test]
    fn a_long_activity_reaches_every_gap_it_overlaps() {
        let mut timeline = Timeline::default();
        for activity in [irq(5, 6), irq(25, 26), irq(0, 100), irq(10, 20)] {
            timeline.push(activity);
        }
        timeline.begin_pass();
        assert_eq!(timeline.overlapping(4, 8), [irq(0, 100), irq(5, 6)]);
        assert_eq!(timeline.overlapping(12, 22), [irq(0, 100), irq(10, 20)]);
        assert_eq!(timeline.overlapping(13, 15), [irq(0, 100), irq(10, 20)]);
        timeline.end_pass(22);
        timeline.begin_pass();
        assert_eq!(timeline.activities(), [irq(0, 100), irq(25, 26)]);
        assert!(timeline.has_forgotten(21) && !timeline.has_forgotten(22));
    }

    #[test]
    fn memory_has_an_end_and_says_so() {
        let mut timeline = Timeline::default();
        for start in 0..KEPT as u64 + 10 {
            timeline.push(irq(start, start + 1));
        }
        timeline.begin_pass();
        timeline.end_pass(0);
        assert_eq!(timeline.activities.len(), KEPT);
        assert!(timeline.has_forgotten(9) && !timeline.has_forgotten(10));
    }
}
