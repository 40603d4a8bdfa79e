//! Times at which the workload on one CPU of the guest polled, and times at which it was
//! interrupted.

use std::ops::Range;

use vmnoise_events::{CpuTally, Gap};

/// Divisor of the length of a window: the maximum time without polling in this window. A window
/// with more time without polling is no evidence, because exits may fall into the time in which the
/// workload hands over gaps.
const BLIND_PART: u64 = 20;
/// Divisor like [`BLIND_PART`], for a workload that pauses; the time for handing over gaps is
/// added. The limit is stricter because a pause causes exits of its own.
const PAUSED_PART: u64 = 1_000;
/// Cycles allowed for handing over one gap. This is the minimum time from which the workload
/// reports the handover itself as a gap (`MIN_BLIND_LIMIT_TSC`).
///
/// The workload's actual limit grows with the threshold, and reading the steal clock takes
/// additional time. Therefore a slow handover may stay unreported, and then counts as a pause. The
/// window is in that case no evidence, although the workload polled.
const HANDED_TSC: u64 = 10_000;

/// Observations of one CPU of the guest. Times are readings of the guest's counter.
#[derive(Debug, Default)]
pub(super) struct ObservedCpu {
    /// Start and end of each gap; sorted once all gaps have arrived.
    pub(super) gaps: Vec<(u64, u64)>,
    /// Windows in which the workload polled, ascending and disjoint.
    pub(super) polled: Vec<(u64, u64)>,
    /// Latest window. [`Self::settle`] may add this window to `polled` after all gaps before its
    /// end have been reported.
    pending: Option<Stretch>,
    /// First and last reading of the workload.
    span: Option<(u64, u64)>,
    blind_tsc: u64,
    /// Times other than polls at which the vCPU provably ran its guest, ascending.
    pub(super) ran: Vec<u64>,
    /// Part of the gaps that were lost, from 0 to 1.
    pub(super) lost_part: f64,
}

/// Window between two tallies.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    from_tsc: u64,
    to_tsc: u64,
    /// Time without polling, in cycles.
    blind_tsc: u64,
    /// Whether the workload may have paused.
    pauses: bool,
}

impl ObservedCpu {
    pub(super) fn add_gap(&mut self, gap: &Gap) {
        if gap.start_tsc <= gap.end_tsc {
            self.gaps.push((gap.start_tsc, gap.end_tsc));
        }
    }

    /// Takes the next tally of the workload. Between two tallies the workload polled, unless the
    /// time without polling grew too much. If `has_room` is false, later gaps are missing, so the
    /// window is not used.
    pub(super) fn add_tally(&mut self, tally: &CpuTally, pauses: bool, has_room: bool) {
        let (first_tsc, from_tsc) = self.span.unwrap_or((tally.first_tsc, tally.first_tsc));
        let blind_tsc = tally.blind_tsc.unwrap_or(0);
        let grown_tsc = blind_tsc.saturating_sub(self.blind_tsc);
        self.blind_tsc = blind_tsc;
        self.span = Some((first_tsc, tally.last_tsc.max(from_tsc)));
        if tally.last_tsc < from_tsc {
            return;
        }
        if has_room {
            self.settle();
        }
        self.pending = has_room.then_some(Stretch {
            from_tsc,
            to_tsc: tally.last_tsc,
            blind_tsc: grown_tsc,
            pauses,
        });
    }

    /// Adds the pending window to `polled`, if the workload polled enough in it. Every gap before
    /// the last reading must have been added.
    pub(super) fn settle(&mut self) {
        let Some(stretch) = self.pending.take() else {
            return;
        };
        let Stretch {
            from_tsc, to_tsc, ..
        } = stretch;
        if stretch.blind_tsc > self.bearable_tsc(&stretch) {
            return;
        }
        match self.polled.last_mut() {
            Some(last) if last.1 == from_tsc => last.1 = to_tsc,
            _ => self.polled.push((from_tsc, to_tsc)),
        }
    }

    /// Returns the maximum time without polling at which a window still counts as polled, in
    /// cycles.
    fn bearable_tsc(&self, stretch: &Stretch) -> u64 {
        let length_tsc = stretch.to_tsc - stretch.from_tsc;
        let most_tsc = length_tsc / BLIND_PART;
        if !stretch.pauses {
            return most_tsc;
        }
        // Gaps come in the order of their ends.
        let reported = |until_tsc| self.gaps.partition_point(|gap| gap.1 <= until_tsc) as u64;
        let handed = reported(stretch.to_tsc).saturating_sub(reported(stretch.from_tsc));
        let handed_tsc = handed.saturating_mul(HANDED_TSC);
        most_tsc.min(handed_tsc.saturating_add(length_tsc / PAUSED_PART))
    }

    /// Sorts the gaps, which came in the order of their ends. Removes all that was observed at the
    /// readings in `twice`, because the guest's counter may have shown them at two times.
    pub(super) fn settle_all(&mut self, twice: Vec<Range<u64>>) {
        self.gaps.sort_unstable();
        if twice.is_empty() {
            return;
        }
        let twice = merged(twice);
        let (unknown, known): (Vec<_>, Vec<_>) = self
            .gaps
            .iter()
            .partition(|(from, to)| next_of(&twice, *from).is_some_and(|next| next.start <= *to));
        self.gaps = known;
        // An exit in such a gap was not observed between two gaps.
        let unknown = unknown.into_iter();
        let unknown = unknown.map(|(from, to)| from..to.saturating_add(1));
        let unknown = merged(unknown.chain(twice).collect());
        let is_known = |at: &u64| next_of(&unknown, *at).is_none_or(|next| *at < next.start);
        self.ran.retain(is_known);
        let polled = self.polled.iter();
        let parts = polled.flat_map(|window| without(*window, &unknown));
        let mut polled: Vec<(u64, u64)> = parts.collect();
        polled.sort_unstable();
        self.polled = polled;
    }

    /// Returns the first and the last reading; `None` if the workload never reported a reading.
    pub(super) fn span(&self) -> Option<(u64, u64)> {
        self.span
    }
}

/// Returns these ranges ascending and disjoint.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Returns the first of the ascending ranges that ends after this reading.
fn next_of(ranges: &[Range<u64>], tsc: u64) -> Option<&Range<u64>> {
    ranges.get(ranges.partition_point(|range| range.end <= tsc))
}

/// Returns the parts of a window that lie outside of these ascending ranges.
fn without(
    (from, to): (u64, u64),
    ranges: &[Range<u64>],
) -> impl Iterator<Item = (u64, u64)> + use<'_> {
    let first = ranges.partition_point(|range| range.end <= from);
    let inside = ranges[first..].iter().take_while(move |it| it.start <= to);
    let starts = [from].into_iter().chain(inside.clone().map(|it| it.end));
    let ends = inside.map(|it| it.start.checked_sub(1)).chain([Some(to)]);
    let parts = starts.zip(ends).map(|(from, to)| Some((from, to?)));
    parts.flatten().filter(|(from, to)| from <= to)
}

/// Index of an [`ObservedCpu`] for look-ups by time.
#[derive(Debug)]
pub(super) struct Holes<'a> {
    gaps: &'a [(u64, u64)],
    polled: &'a [(u64, u64)],
    polled_tsc: u64,
    ran: &'a [u64],
    lost_part: f64,
    /// Lengths of the gaps in cycles, ascending.
    lengths: Vec<u64>,
    /// Sum of `lengths` from each index to the end.
    tails: Vec<u64>,
    /// Lengths of the parts of all gaps, ascending. Each gap is divided at the times at which the
    /// vCPU ran its guest.
    parts: Vec<u64>,
}

impl<'a> Holes<'a> {
    /// Creates the index; the gaps must be sorted.
    pub(super) fn of(observed: &'a ObservedCpu) -> Holes<'a> {
        let mut lengths: Vec<u64> = observed
            .gaps
            .iter()
            .map(|(start, end)| end - start)
            .collect();
        lengths.sort_unstable();
        let mut tail = 0_u64;
        let tails = lengths.iter().rev().map(|length| {
            tail = tail.saturating_add(*length);
            tail
        });
        let mut tails: Vec<u64> = tails.collect();
        tails.reverse();
        let polled_tsc = observed.polled.iter().map(|(from, to)| to - from);
        let mut holes = Holes {
            gaps: &observed.gaps,
            polled: &observed.polled,
            polled_tsc: polled_tsc.fold(0, u64::saturating_add),
            ran: &observed.ran,
            lost_part: observed.lost_part,
            lengths,
            tails,
            parts: Vec::new(),
        };
        holes.parts = (0..holes.gaps.len())
            .flat_map(|place| holes.parts_of(place))
            .collect();
        holes.parts.sort_unstable();
        holes
    }

    fn parts_of(&self, place: usize) -> impl Iterator<Item = u64> + use<'a> {
        let (from, to) = self.gaps[place];
        let mut begin = from;
        let ends = self.ran_in(place).iter().copied().chain([to]);
        ends.map(move |end| end - std::mem::replace(&mut begin, end))
    }

    /// Returns whether one window of polling contains this time, extended by the margin on both
    /// sides.
    pub(super) fn polled(&self, start_tsc: u64, end_tsc: u64, margin_tsc: u64) -> bool {
        let (Some(from), Some(to)) = (
            start_tsc.checked_sub(margin_tsc),
            end_tsc.checked_add(margin_tsc),
        ) else {
            return false;
        };
        let after = self.polled.partition_point(|stretch| stretch.0 <= from);
        let stretch = after.checked_sub(1).map(|place| self.polled[place]);
        stretch.is_some_and(|(_, end)| to <= end)
    }

    /// Returns the index of the gap that contains this time, within the margin. Otherwise, returns
    /// as the error the number of gaps that started earlier.
    pub(super) fn find(&self, start: u64, end: u64, margin: u64) -> Result<usize, usize> {
        let begun = |at: u64| self.gaps.partition_point(|gap| gap.0 <= at);
        let holds = |place: &usize| {
            let (from, to) = self.gaps[*place];
            from <= start.saturating_add(margin) && end <= to.saturating_add(margin)
        };
        let near = begun(start.saturating_add(margin));
        let mut places = (near.saturating_sub(2)..near).rev();
        places.find(holds).ok_or_else(|| begun(start))
    }

    /// Returns the part of the gaps that were lost.
    pub(super) fn lost_part(&self) -> f64 {
        self.lost_part
    }

    pub(super) fn gap(&self, place: usize) -> (u64, u64) {
        self.gaps[place]
    }

    /// Returns the times within a gap at which the vCPU ran its guest.
    pub(super) fn ran_in(&self, place: usize) -> &'a [u64] {
        self.ran_between(place, 0, u64::MAX)
    }

    /// Returns the times within a gap at which the vCPU ran its guest, between `first` and `last`.
    pub(super) fn ran_between(&self, place: usize, first: u64, last: u64) -> &'a [u64] {
        let (from, to) = self.gaps[place];
        let begin = self.ran.partition_point(|at| *at <= from || *at < first);
        let after = self.ran.partition_point(|at| *at < to && *at <= last);
        &self.ran[begin..after.max(begin)]
    }

    /// Returns the number of known times at which the vCPU ran its guest.
    pub(super) fn instants(&self) -> usize {
        self.ran.len()
    }

    /// Returns whether the vCPU ran its guest at an instant within this time, more than `margin`
    /// from both ends.
    pub(super) fn ran_during(&self, (start, end): (u64, u64), margin: u64) -> bool {
        let after = self
            .ran
            .partition_point(|at| *at <= start.saturating_add(margin));
        let next = self.ran.get(after);
        next.is_some_and(|at| at.saturating_add(margin) < end)
    }

    /// Returns the time from the start of the first window of polling to the end of the last
    /// window, in cycles.
    pub(super) fn extent(&self) -> u64 {
        let ends = self.polled.first().zip(self.polled.last());
        ends.map_or(0, |(first, last)| last.1.saturating_sub(first.0))
    }

    /// Returns the number of parts of gaps that are at least as long as this time.
    pub(super) fn fits(&self, (start, end): (u64, u64)) -> usize {
        let shorter = self.parts.partition_point(|length| *length < end - start);
        self.parts.len() - shorter
    }

    /// Returns the windows of polling that this time would overlap if it were moved by up to
    /// `margin`.
    pub(super) fn polled_near(&self, (start, end): (u64, u64), margin: u64) -> &'a [(u64, u64)] {
        let first = start.saturating_sub(margin);
        let last = end.saturating_add(margin);
        let from = self.polled.partition_point(|stretch| stretch.1 < first);
        let to = self.polled.partition_point(|stretch| stretch.0 <= last);
        &self.polled[from..to.max(from)]
    }

    /// Returns the indices of the gaps that this time would overlap if it were moved by up to
    /// `margin`. The range may include one gap more.
    pub(super) fn places_near(&self, (start, end): (u64, u64), margin: u64) -> Range<usize> {
        self.places_in(start.saturating_sub(margin), end.saturating_add(margin))
    }

    /// Returns the indices of the gaps that overlap this time. The range may include one gap more.
    pub(super) fn places_in(&self, first: u64, last: u64) -> Range<usize> {
        let from = self.gaps.partition_point(|gap| gap.0 < first);
        let to = self.gaps.partition_point(|gap| gap.0 <= last);
        from.saturating_sub(1)..to
    }

    /// Returns the number of gaps, windows of polling and instants that this time would overlap if
    /// it were moved by up to `margin`.
    pub(super) fn looks_near(&self, (start, end): (u64, u64), margin: u64) -> usize {
        let (first, last) = (start.saturating_sub(margin), end.saturating_add(margin));
        let after = self.ran.partition_point(|at| *at <= last);
        let before = self.ran.partition_point(|at| *at < first);
        let stretches = self.polled_near((start, end), margin).len();
        self.places_in(first, last).len() + stretches + after.saturating_sub(before)
    }

    /// Returns the probability that a time of this length, placed at random, lies in a gap. The
    /// time may extend beyond either end of the gap by `margin`.
    pub(super) fn chance(&self, length_tsc: u64, margin: u64) -> f64 {
        let length_tsc = length_tsc.saturating_sub(margin.saturating_mul(2));
        let longer = self.lengths.partition_point(|length| *length <= length_tsc);
        let Some(sum_tsc) = self.tails.get(longer) else {
            return 0.0;
        };
        let count = (self.lengths.len() - longer) as u64;
        let room_tsc = sum_tsc.saturating_sub(count.saturating_mul(length_tsc));
        (room_tsc as f64 / self.polled_tsc.max(1) as f64).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(last_tsc: u64, blind_tsc: u64) -> CpuTally {
        CpuTally {
            cpu: 0,
            first_tsc: 1_000,
            last_tsc,
            blind_tsc: Some(blind_tsc),
            ..CpuTally::default()
        }
    }

    #[test]
    fn a_pause_is_not_polled() {
        let mut observed = ObservedCpu::default();
        for (last_tsc, blind_tsc) in [(2_000, 0), (3_000, 10), (4_000, 900), (5_000, 900)] {
            observed.add_tally(&tally(last_tsc, blind_tsc), false, true);
        }
        assert_eq!(observed.polled, [(1_000, 3_000)]);
        observed.settle();
        assert_eq!(observed.polled, [(1_000, 3_000), (4_000, 5_000)]);
        assert_eq!(observed.span(), Some((1_000, 5_000)));
    }

    #[test]
    fn a_short_pause_is_not_polled_either() {
        let mut observed = ObservedCpu::default();
        for (last_tsc, blind_tsc) in [(101_000, 100), (201_000, 300), (301_000, 350)] {
            observed.add_tally(&tally(last_tsc, blind_tsc), true, true);
        }
        observed.settle();
        assert_eq!(observed.polled, [(1_000, 101_000), (201_000, 301_000)]);
    }

    #[test]
    fn a_time_is_found_in_its_gap() {
        let mut observed = ObservedCpu {
            gaps: vec![(2_500, 2_600), (2_000, 2_500), (1_200, 1_300)],
            polled: vec![(1_000, 3_000)],
            ..ObservedCpu::default()
        };
        observed.settle_all(Vec::new());
        let holes = Holes::of(&observed);
        assert!(holes.polled(1_100, 2_900, 100) && !holes.polled(1_099, 2_900, 100));
        assert_eq!(holes.find(1_200, 1_300, 0), Ok(0));
        assert_eq!(holes.find(1_199, 1_300, 0), Err(0));
        assert_eq!(holes.find(1_199, 1_300, 1), Ok(0));
        assert_eq!(holes.find(1_400, 1_500, 0), Err(1));
        assert_eq!(holes.find(2_400, 2_500, 5), Ok(1));
        assert_eq!(holes.find(2_497, 2_500, 5), Ok(2), "or in this one");
        assert_eq!(holes.find(2_499, 2_600, 0), Err(2), "across a reading");
    }

    #[test]
    fn a_reading_that_was_shown_twice_is_no_evidence() {
        // The counter went back from 2,000 to 1,000.
        let mut observed = ObservedCpu {
            gaps: vec![(1_700, 1_800), (500, 600), (900, 1_050), (2_100, 2_200)],
            polled: vec![(400, 2_000), (1_000, 3_000)],
            ran: vec![550, 950, 1_750, 2_150],
            ..ObservedCpu::default()
        };
        observed.settle_all(vec![1_500..2_001, 1_000..1_600]);
        assert_eq!(observed.gaps, [(500, 600), (2_100, 2_200)]);
        assert_eq!(observed.polled, [(400, 899), (2_001, 3_000)]);
        assert_eq!(observed.ran, [550, 2_150]);
    }

    #[test]
    fn the_chance_is_the_room_that_gaps_leave() {
        let mut observed = ObservedCpu {
            gaps: vec![(1_000, 1_100), (2_000, 2_500)],
            polled: vec![(0, 10_000)],
            ..ObservedCpu::default()
        };
        observed.settle_all(Vec::new());
        let holes = Holes::of(&observed);
        assert_eq!(holes.chance(0, 0), 0.06);
        assert_eq!(holes.chance(100, 0), 0.04);
        assert_eq!(holes.chance(500, 0), 0.0);
        assert_eq!(holes.chance(110, 5), 0.04);
    }
}
