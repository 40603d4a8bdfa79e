//! The activities of one CPU that a gap may still need, in order.

use vmnoise_events::Activity;

use crate::sweep::sweep_order;

/// Activities kept while no gap or tally shows that they are over (4 MiB). A
/// longer memory would only serve a gap that holds more activities than this.
pub(crate) const KEPT: usize = 1 << 17;

/// Activities of one CPU that go on at one instant, at most. A kernel nests a handful; more come of a damaged
/// stream only, and each would be looked at in every gap.
pub(crate) const LIVE: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Timeline {
    /// Told since the last pass, in the order of arrival.
    arrived: Vec<Activity>,
    /// In sweep order from `first` on; those before it are forgotten.
    activities: Vec<Activity>,
    first: usize,
    forgotten_to_ns: u64,
    /// Of the pass under way: the first activity that begins after every gap so
    /// far, and those before it that may reach into the next gap.
    cursor: usize,
    live: Vec<Activity>,
    /// Activities left out because more than [`LIVE`] went on with them.
    crowded: u64,
}

impl Timeline {
    pub(crate) fn push(&mut self, activity: Activity) {
        self.arrived.push(activity);
    }

    /// Starts a pass over gaps in the order of their begins.
    pub(crate) fn begin_pass(&mut self) {
        self.sort_in();
        self.cursor = self.first;
        self.live.clear();
    }

    /// Puts what arrived in its place. Most of it belongs behind all others.
    fn sort_in(&mut self) {
        self.arrived.sort_by_key(sweep_order);
        let Some(first) = self.arrived.first().map(sweep_order) else {
            return;
        };
        let place = self
            .activities
            .partition_point(|it| sweep_order(it) <= first);
        let behind = place.max(self.first);
        let is_last = behind == self.activities.len();
        self.activities.append(&mut self.arrived);
        if !is_last {
            // Stable sorting is adaptive: these are two runs.
            self.activities[behind..].sort_by_key(sweep_order);
        }
    }

    /// All activities, in the order of their begins during a pass.
    pub(crate) fn activities(&self) -> &[Activity] {
        &self.activities[self.first..]
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.arrived.is_empty() && self.first == self.activities.len()
    }

    /// Activities left out because too many went on at once.
    pub(crate) fn crowded(&self) -> u64 {
        self.crowded
    }

    /// What overlaps the next gap, in sweep order.
    pub(crate) fn overlapping(&mut self, start_ns: u64, end_ns: u64) -> &[Activity] {
        self.live.retain(|activity| activity.end_mono_ns > start_ns);
        if self.live.len() > LIVE {
            self.crowded += (self.live.len() - LIVE) as u64;
            self.live.truncate(LIVE);
        }
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
        self.sort_in();
        self.forgotten_to_ns = self.forgotten_to_ns.max(settled_ns);
        let begun = self
            .activities()
            .partition_point(|activity| activity.start_mono_ns < settled_ns);
        let behind = self.first + begun;
        let going_on = (self.activities[self.first..behind].iter())
            .filter(|activity| activity.end_mono_ns > settled_ns);
        let mut going_on: Vec<Activity> = going_on.copied().collect();
        if going_on.len() > LIVE {
            self.crowded += (going_on.len() - LIVE) as u64;
            going_on.truncate(LIVE);
        }
        self.first = behind - going_on.len();
        self.activities[self.first..behind].copy_from_slice(&going_on);
        if let Some(excess) = self.activities().len().checked_sub(KEPT) {
            for activity in &self.activities[self.first..self.first + excess] {
                self.forgotten_to_ns = self.forgotten_to_ns.max(activity.end_mono_ns);
            }
            self.first += excess;
        }
        if self.first > self.activities.len() / 2 {
            self.activities.drain(..self.first);
            self.first = 0;
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
        assert_eq!(timeline.activities().len(), KEPT);
        assert!(timeline.has_forgotten(9) && !timeline.has_forgotten(10));
    }

    #[test]
    fn what_arrives_late_finds_its_place() {
        let mut timeline = Timeline::default();
        for arrived in [
            &[irq(10, 12), irq(30, 95)][..],
            &[irq(20, 90)],
            &[irq(5, 99)],
        ] {
            arrived.iter().for_each(|activity| timeline.push(*activity));
            timeline.begin_pass();
            timeline.end_pass(15);
        }
        timeline.begin_pass();
        assert_eq!(
            timeline.activities(),
            [irq(5, 99), irq(20, 90), irq(30, 95)]
        );
        timeline.end_pass(92);
        timeline.begin_pass();
        assert_eq!(timeline.overlapping(92, 98), [irq(5, 99), irq(30, 95)]);
    }

    #[test]
    fn what_never_ends_is_not_kept_without_end() {
        let mut timeline = Timeline::default();
        for start in 0..10_000 {
            timeline.push(irq(start, u64::MAX));
        }
        timeline.begin_pass();
        // All of them are in a gap that they begin in, and none is left out of it.
        assert_eq!(timeline.overlapping(0, 10_000).len(), 10_000);
        assert_eq!(timeline.overlapping(20_000, 20_001).len(), LIVE);
        assert_eq!(timeline.crowded(), 10_000 - LIVE as u64);
        timeline.end_pass(20_001);
        timeline.begin_pass();
        assert_eq!(timeline.activities().len(), LIVE);
    }
}
