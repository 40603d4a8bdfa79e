//! Activities of one CPU, in order, that a later gap may overlap.

mod ends;

use std::collections::BTreeMap;

use vmnoise_events::Activity;

use crate::near::near_front;
use crate::sweep::sweep_order;
use ends::Ends;

/// Maximum number of activities that are kept until a gap or tally shows that no later gap needs
/// them (4 MiB). A larger limit would help only a gap that overlaps more activities than this.
pub(crate) const KEPT: usize = 1 << 17;

/// Maximum number of activities of one CPU that run at one instant. A kernel nests a handful. Only
/// a damaged stream has more, and without this limit every gap would visit each of them.
pub(crate) const LIVE: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Timeline {
    /// Activities that have arrived since the last pass, in the order of arrival.
    arrived: Vec<Activity>,
    /// Activities in sweep order. The activities before index `first` are forgotten.
    activities: Vec<Activity>,
    ends: Ends,
    first: usize,
    /// Activities that start after the time of the last pass, by start. A number distinguishes
    /// activities that start together.
    to_come: BTreeMap<(u64, u64), Activity>,
    numbers: u64,
    forgotten_to_ns: u64,
    /// Index of the first activity that starts after the start of every gap of this pass so far.
    cursor: usize,
    /// Activities before `cursor` that still ran at the start of the last gap.
    live: Vec<Activity>,
    /// Scratch memory: activities that overlap the last gap.
    overlapping: Vec<Activity>,
    /// Number of activities that may still be handed out to gaps in which they start.
    handed_left: u64,
    /// Number of sorted activities that may still be moved to make room for a new activity.
    moves_left: u64,
    /// Number of activities that were left out. Either more than [`LIVE`] activities ran at once,
    /// or activities were handed out or moved too often.
    crowded: u64,
}

impl Timeline {
    pub(crate) fn push(&mut self, activity: Activity) {
        // Gaps of one CPU follow each other. Only vCPUs that wait for the same activities overlap
        // each other. A file in which more than [`LIVE`] gaps on average share an activity is
        // damaged. Without this limit, the time would grow with the square of the size of the file.
        self.handed_left += LIVE as u64;
        // Unless it is late, an activity that arrives after a pass ended after the time that the
        // pass needed. The activity therefore still ran when the activities that are sorted behind
        // it began. At most [`LIVE`] of these activities run at once.
        self.moves_left += LIVE as u64;
        self.arrived.push(activity);
    }

    /// Starts a pass over gaps that end by `horizon_ns`. The gaps of a pass come sorted by start.
    pub(crate) fn begin_pass(&mut self, horizon_ns: u64) {
        self.sort_in(horizon_ns);
        self.cursor = self.first;
        self.live.clear();
    }

    /// Sorts the new activities that start before `horizon_ns` into the others. Most new activities
    /// belong behind all others.
    fn sort_in(&mut self, horizon_ns: u64) {
        let begins_later = |it: &mut Activity| it.start_mono_ns >= horizon_ns;
        for later in self.arrived.extract_if(.., begins_later) {
            self.numbers += 1;
            let key = (later.start_mono_ns, self.numbers);
            self.to_come.insert(key, later);
        }
        while let Some(next) = self.to_come.first_entry()
            && next.key().0 < horizon_ns
        {
            self.arrived.push(next.remove());
        }
        self.arrived.sort_by_key(sweep_order);
        let Some(first) = self.arrived.first().map(sweep_order) else {
            return;
        };
        let place = self
            .activities
            .partition_point(|it| sweep_order(it) <= first);
        let mut behind = place.max(self.first);
        match self
            .moves_left
            .checked_sub((self.activities.len() - behind) as u64)
        {
            Some(left) => self.moves_left = left,
            None => {
                self.leave_out_misplaced();
                behind = self.activities.len();
            }
        }
        let is_last = behind == self.activities.len();
        self.activities.append(&mut self.arrived);
        if !is_last {
            // Both parts are already sorted, and stable sorting merges two sorted parts quickly.
            self.activities[behind..].sort_by_key(sweep_order);
        }
        self.ends.renew(&self.activities, behind);
    }

    fn leave_out_misplaced(&mut self) {
        let last = self.activities.last().map(sweep_order);
        let misplaced = |it: &Activity| Some(sweep_order(it)) < last;
        let misplaced = self.arrived.partition_point(misplaced);
        self.crowded += misplaced as u64;
        self.arrived.drain(..misplaced);
    }

    /// Returns all activities that a pass may need, sorted by start.
    pub(crate) fn activities(&self) -> &[Activity] {
        &self.activities[self.first..]
    }

    /// Returns whether no activity is kept.
    pub(crate) fn is_empty(&self) -> bool {
        let in_order = self.activities.len() - self.first;
        self.arrived.is_empty() && self.to_come.is_empty() && in_order == 0
    }

    /// Returns the number of activities left out because too many ran at once.
    pub(crate) fn crowded(&self) -> u64 {
        self.crowded
    }

    /// Returns the activities that overlap the next gap, in sweep order.
    pub(crate) fn overlapping(&mut self, start_ns: u64, end_ns: u64) -> &[Activity] {
        self.go_on_to(start_ns);
        let begun = |all: &[Activity]| near_front(all, |it| it.start_mono_ns < end_ns);
        let behind = &self.activities[self.cursor..];
        let all = begun(behind);
        let handed = (all as u64).min(self.handed_left);
        self.handed_left -= handed;
        self.crowded += all as u64 - handed;
        // Most gaps need no merge.
        if self.live.is_empty() {
            return &behind[..handed as usize];
        }
        self.overlapping.clear();
        self.overlapping
            .extend_from_slice(&self.live[..begun(&self.live)]);
        self.overlapping
            .extend_from_slice(&behind[..handed as usize]);
        &self.overlapping
    }

    /// Moves on to the start of the next gap, and finds the activities that run at this instant.
    fn go_on_to(&mut self, start_ns: u64) {
        self.live.retain(|activity| activity.end_mono_ns > start_ns);
        let behind = &self.activities[self.cursor..];
        let until = self.cursor + near_front(behind, |it| it.start_mono_ns <= start_ns);
        // Visits at most as many activities as may still be handed out.
        let most = LIVE + self.handed_left as usize;
        while self.live.len() < most
            && let Some(place) =
                (self.ends).next_after(start_ns, &self.activities, self.cursor, until)
        {
            self.live.push(self.activities[place]);
            self.cursor = place + 1;
        }
        self.cursor = until;
        if let Some(excess) = self.live.len().checked_sub(LIVE) {
            self.handed_left -= excess as u64;
            self.crowded += excess as u64;
            self.live.truncate(LIVE);
        }
    }

    /// Ends the pass, and forgets activities that ended by `settled_ns`, because no later gap
    /// overlaps these activities.
    pub(crate) fn end_pass(&mut self, settled_ns: u64) {
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
        for (place, activity) in (self.first..).zip(&going_on) {
            self.ends.raise(place, activity.end_mono_ns);
        }
        self.forget_excess();
        if self.first > self.activities.len() / 2 {
            self.activities.drain(..self.first);
            self.first = 0;
            self.ends.renew(&self.activities, 0);
        }
    }

    fn forget_excess(&mut self) {
        let in_order = self.activities().len();
        let excess = (in_order + self.to_come.len()).saturating_sub(KEPT);
        let of_order = excess.min(in_order);
        for activity in &self.activities[self.first..self.first + of_order] {
            self.forgotten_to_ns = self.forgotten_to_ns.max(activity.end_mono_ns);
        }
        self.first += of_order;
        for _ in of_order..excess {
            let first = self.to_come.pop_first();
            let end_ns = first.map_or(0, |(_, activity)| activity.end_mono_ns);
            self.forgotten_to_ns = self.forgotten_to_ns.max(end_ns);
        }
    }

    /// Returns whether activities in a gap that starts at `start_ns` may have been forgotten.
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
        timeline.begin_pass(u64::MAX);
        assert_eq!(timeline.overlapping(4, 8), [irq(0, 100), irq(5, 6)]);
        assert_eq!(timeline.overlapping(12, 22), [irq(0, 100), irq(10, 20)]);
        assert_eq!(timeline.overlapping(13, 15), [irq(0, 100), irq(10, 20)]);
        timeline.end_pass(22);
        timeline.begin_pass(u64::MAX);
        assert_eq!(timeline.activities(), [irq(0, 100), irq(25, 26)]);
        assert!(timeline.has_forgotten(21) && !timeline.has_forgotten(22));
    }

    #[test]
    fn memory_has_an_end_and_says_so() {
        let mut timeline = Timeline::default();
        for start in 0..KEPT as u64 + 10 {
            timeline.push(irq(start, start + 1));
        }
        timeline.begin_pass(u64::MAX);
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
            timeline.begin_pass(u64::MAX);
            timeline.end_pass(15);
        }
        timeline.begin_pass(u64::MAX);
        assert_eq!(
            timeline.activities(),
            [irq(5, 99), irq(20, 90), irq(30, 95)]
        );
        timeline.end_pass(92);
        timeline.begin_pass(u64::MAX);
        assert_eq!(timeline.overlapping(92, 98), [irq(5, 99), irq(30, 95)]);
    }

    #[test]
    fn what_comes_one_after_the_other_is_no_crowd() {
        let mut timeline = Timeline::default();
        for start in 0..10_000 {
            timeline.push(irq(start, start + 1));
        }
        timeline.begin_pass(u64::MAX);
        // The gaps overlap, like the waits of several vCPUs for one CPU.
        for start in 0..10 {
            let expected = 10_000 - start as usize;
            assert_eq!(timeline.overlapping(start, 10_000).len(), expected);
        }
        assert_eq!(timeline.crowded(), 0);
    }

    #[test]
    fn nothing_is_handed_out_without_end() {
        let mut timeline = Timeline::default();
        let all = LIVE as u64 * 4;
        for start in 1..=all {
            timeline.push(irq(start, start + 1));
        }
        timeline.begin_pass(u64::MAX);
        let handed = (0..all).map(|_| timeline.overlapping(0, u64::MAX).len() as u64);
        let handed: u64 = handed.sum();
        assert_eq!(handed, all * LIVE as u64);
        assert_eq!(timeline.crowded(), all * all - handed);
    }

    #[test]
    fn what_is_to_come_is_put_in_order_once() {
        let mut timeline = Timeline::default();
        let count = 1_000;
        for turn in 0..count {
            timeline.push(irq(5_000 - turn, 5_000 + turn));
            timeline.begin_pass(turn);
            assert!(timeline.activities().is_empty() && !timeline.is_empty());
            timeline.end_pass(0);
        }
        timeline.begin_pass(4_500);
        assert_eq!(timeline.activities().len(), 499, "those that begin by then");
        timeline.end_pass(0);
        timeline.begin_pass(u64::MAX);
        assert!(timeline.activities().is_sorted_by_key(sweep_order));
        assert_eq!(timeline.activities().len(), count as usize);
        assert_eq!(timeline.moves_left, count * LIVE as u64, "none was moved");
    }

    #[test]
    fn what_is_to_come_is_not_kept_without_end() {
        let mut timeline = Timeline::default();
        for turn in 0..KEPT as u64 + 10 {
            timeline.push(irq(1 << 40, (1 << 41) + turn));
        }
        timeline.begin_pass(9);
        timeline.end_pass(0);
        assert!(timeline.has_forgotten((1 << 41) + 8) && !timeline.has_forgotten((1 << 41) + 9));
        timeline.begin_pass(u64::MAX);
        assert_eq!(timeline.activities().len(), KEPT);
    }

    #[test]
    fn nothing_is_moved_without_end() {
        let mut timeline = Timeline::default();
        let count = 4 * LIVE as u64;
        for turn in 0..count {
            // Each activity runs together with all earlier activities.
            timeline.push(irq(5_000 - turn, 9_000 + turn));
            timeline.begin_pass(9_000 + turn);
            timeline.end_pass(0);
        }
        assert!(timeline.crowded() > 0);
        let in_order = timeline.activities().len() as u64;
        assert_eq!(in_order + timeline.crowded(), count);
    }

    #[test]
    fn what_never_ends_is_not_kept_without_end() {
        let mut timeline = Timeline::default();
        for start in 0..10_000 {
            timeline.push(irq(start, u64::MAX));
        }
        timeline.begin_pass(u64::MAX);
        // All activities start in this gap, and none of them is left out.
        assert_eq!(timeline.overlapping(0, 10_000).len(), 10_000);
        assert_eq!(timeline.overlapping(20_000, 20_001).len(), LIVE);
        assert_eq!(timeline.crowded(), 10_000 - LIVE as u64);
        timeline.end_pass(20_001);
        timeline.begin_pass(u64::MAX);
        assert_eq!(timeline.activities().len(), LIVE);
    }
}
