//! Relation of one machine's TSC to its CLOCK_MONOTONIC during a recording, divided into epochs. A
//! new epoch starts where one of the two clocks jumped, for example after a suspend.

use std::ops::Range;

use vmnoise_events::{Anchor, ClockFacts};

use crate::clockmap::ClockMap;

/// Maximum number of epochs. Machines are suspended rarely. Times after the last epoch cannot be
/// converted.
const MOST: usize = 64;

/// Epochs in which times can be converted between TSC and CLOCK_MONOTONIC. A time belongs to an
/// epoch only between the first and the last anchor of the epoch.
#[derive(Debug, Clone)]
pub(super) struct ClockEpochs {
    facts: ClockFacts,
    /// Epochs, ascending in CLOCK_MONOTONIC. Each epoch has at least one anchor.
    epochs: Vec<ClockMap>,
    /// Whether the clocks jumped more than [`MOST`] times.
    has_ended: bool,
    /// Readings that the TSC may have shown twice, because the TSC went back.
    shown_twice: Vec<Range<u64>>,
}

impl ClockEpochs {
    pub(super) fn new(facts: &ClockFacts) -> ClockEpochs {
        ClockEpochs {
            facts: *facts,
            epochs: Vec::new(),
            has_ended: false,
            shown_twice: Vec::new(),
        }
    }

    /// Adds an anchor. Ignores an anchor with a negative bracket, or one that is not later than the
    /// last anchor.
    pub(super) fn add(&mut self, anchor: &Anchor) {
        let is_before = |(_, last_ns)| anchor.mono_ns <= last_ns;
        if self.has_ended || self.span_mono_ns().is_some_and(is_before) {
            return;
        }
        if let Some(epoch) = self.epochs.last_mut()
            && epoch.goes_on(anchor)
            && epoch.add(anchor)
        {
            return;
        }
        self.has_ended = self.epochs.len() == MOST;
        let mut epoch = ClockMap::new(&self.facts);
        if !self.has_ended && epoch.add(anchor) {
            let shown_twice = self.shown_around(anchor);
            self.shown_twice.extend(shown_twice.into_iter().flatten());
            self.epochs.push(epoch);
        }
    }

    /// Returns the readings that the TSC may have shown between the last anchor and the jump, and
    /// between the jump and this anchor. Returns `None` if no reading can have been shown twice,
    /// because the TSC jumped far forward.
    fn shown_around(&self, anchor: &Anchor) -> Option<[Range<u64>; 2]> {
        let epoch = self.epochs.last()?;
        let ((_, last_tsc), (_, last_ns)) = epoch.span_tsc().zip(epoch.span_mono_ns())?;
        let most_tsc = epoch.most_cycles(anchor.mono_ns - last_ns);
        let first_tsc = anchor.before_tsc;
        let before = last_tsc.saturating_add(1)..last_tsc.saturating_add(most_tsc);
        let after = first_tsc.saturating_sub(most_tsc)..first_tsc;
        (first_tsc < before.end).then_some([before, after])
    }

    /// Returns CLOCK_MONOTONIC at the first and at the last anchor, in nanoseconds; `None` without
    /// anchors.
    pub(super) fn span_mono_ns(&self) -> Option<(u64, u64)> {
        let (first_ns, _) = self.epochs.first()?.span_mono_ns()?;
        let (_, last_ns) = self.epochs.last()?.span_mono_ns()?;
        Some((first_ns, last_ns))
    }

    /// Returns each epoch with its index, and with CLOCK_MONOTONIC at its first and last anchor, in
    /// nanoseconds.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, &ClockMap, (u64, u64))> {
        let epochs = self.epochs.iter().enumerate();
        epochs.filter_map(|(place, epoch)| Some((place, epoch, epoch.span_mono_ns()?)))
    }

    /// Returns the index of the epoch and the TSC reading at this time (CLOCK_MONOTONIC, ns).
    pub(super) fn tsc(&self, mono_ns: u64) -> Option<(usize, u64)> {
        let holds = |(first_ns, last_ns)| first_ns <= mono_ns && mono_ns <= last_ns;
        let mut epochs = self.epochs.iter().enumerate().rev();
        let (place, epoch) = epochs.find(|(_, epoch)| epoch.span_mono_ns().is_some_and(holds))?;
        Some((place, epoch.tsc(mono_ns)))
    }

    /// Returns CLOCK_MONOTONIC in nanoseconds at this TSC reading; `None` if no epoch has this
    /// reading, if two have it, or if the TSC may have shown it twice.
    pub(super) fn mono_ns(&self, tsc: u64) -> Option<u64> {
        let mut epochs = self.epochs_within(tsc, tsc);
        let epoch = epochs.next()?;
        (!self.shows_twice(tsc, tsc)).then(|| epoch.mono_ns(tsc))
    }

    /// Returns whether the TSC may have shown a reading between `first_tsc` and `last_tsc` twice.
    /// Both must lie in one epoch.
    pub(super) fn shows_twice(&self, first_tsc: u64, last_tsc: u64) -> bool {
        let mut twice = self.shown_twice.iter();
        twice.any(|readings| readings.start <= last_tsc && first_tsc < readings.end)
            || self.epochs_within(first_tsc, last_tsc).nth(1).is_some()
    }

    /// Returns the readings that the TSC may have shown twice, unsorted.
    pub(super) fn readings_twice(&self) -> Vec<Range<u64>> {
        let spans = self.epochs.iter().filter_map(ClockMap::span_tsc);
        let spans: Vec<(u64, u64)> = spans.collect();
        let mut twice = self.shown_twice.clone();
        for (place, one) in spans.iter().enumerate() {
            let both = spans[..place].iter().map(|other| {
                let (first_tsc, last_tsc) = (one.0.max(other.0), one.1.min(other.1));
                first_tsc..last_tsc.saturating_add(1)
            });
            twice.extend(both.filter(|readings| !readings.is_empty()));
        }
        twice
    }

    /// Returns the epochs that have a reading between `first_tsc` and `last_tsc`.
    fn epochs_within(&self, first_tsc: u64, last_tsc: u64) -> impl Iterator<Item = &ClockMap> {
        let has_one = move |(from_tsc, until_tsc)| from_tsc <= last_tsc && first_tsc <= until_tsc;
        let epochs = self.epochs.iter();
        epochs.filter(move |epoch| epoch.span_tsc().is_some_and(has_one))
    }

    /// Returns the largest error of a conversion between the clocks, in nanoseconds. The error
    /// includes rounding to whole cycles and nanoseconds.
    pub(super) fn bound_ns(&self) -> u64 {
        let bounds = self.epochs.iter().filter_map(|epoch| {
            let anchors_ns = epoch.bound_ns()?;
            Some(
                anchors_ns
                    .saturating_add(epoch.duration_ns(1))
                    .saturating_add(1),
            )
        });
        bounds.max().unwrap_or(u64::MAX)
    }

    /// Returns the error bound of the offset between a microVM's counter and its host's, in
    /// nanoseconds; 0 for other workloads. A microVM reports its gaps on its host's counter.
    pub(super) fn offset_bound_ns(&self) -> u64 {
        self.cycles_ns(self.facts.offset_bound_tsc)
    }

    /// Converts cycles to nanoseconds, rounded up.
    pub(super) fn cycles_ns(&self, cycles: u64) -> u64 {
        ClockMap::new(&self.facts).duration_ns(cycles)
    }

    pub(super) fn tsc_hz(&self) -> u64 {
        self.facts.tsc_hz.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmnoise_events::ClockSource;

    fn epochs(anchors: &[(u64, u64)]) -> ClockEpochs {
        let mut epochs = ClockEpochs::new(&ClockFacts {
            source: ClockSource::Tsc,
            tsc_hz: 2_000_000_000,
            offset_proof: None,
            offset_tsc: 0,
            offset_bound_tsc: 0,
            bracket_tsc: 0,
        });
        for &(tsc, mono_ns) in anchors {
            epochs.add(&Anchor {
                before_tsc: tsc,
                mono_ns,
                after_tsc: tsc,
            });
        }
        epochs
    }

    #[test]
    fn a_disciplined_clock_is_one_epoch() {
        let epochs = epochs(&[(0, 100), (40_000_000, 20_010_100), (80_000_000, 39_990_100)]);
        assert_eq!(epochs.iter().count(), 1);
        assert_eq!(epochs.tsc(100), Some((0, 0)));
        assert_eq!(epochs.tsc(99), None, "nobody looked at the clocks before");
        assert_eq!(epochs.mono_ns(80_000_001), None);
    }

    #[test]
    fn what_the_clocks_did_in_a_suspended_machine_is_unknown() {
        // CLOCK_MONOTONIC stood still for a second; then the TSC restarted.
        let epochs = epochs(&[
            (0, 100),
            (40_000_000, 20_000_100),
            (2_080_000_000, 40_000_100),
            (2_120_000_000, 60_000_100),
            (1_000, 80_000_100),
            (40_001_000, 100_000_100),
        ]);
        assert_eq!(epochs.iter().count(), 3);
        assert_eq!(epochs.tsc(30_000_000), None);
        assert_eq!(epochs.tsc(50_000_100), Some((1, 2_100_000_000)));
        assert_eq!(epochs.mono_ns(2_100_000_000), Some(50_000_100));
        assert_eq!(epochs.mono_ns(20_000_000), None, "it was read twice");
        assert_eq!(epochs.bound_ns(), 2);
    }

    #[test]
    fn a_reading_that_was_shown_before_a_jump_back_and_after_is_of_no_time() {
        // The TSC went back by 10 ms, and exceeded its last reading again when the clocks were
        // read.
        let epochs = epochs(&[
            (0, 100),
            (40_000_000, 20_000_100),
            (60_000_000, 40_000_100),
            (100_000_000, 60_000_100),
        ]);
        assert_eq!(epochs.iter().count(), 2);
        // The TSC ran for at most 20 ms, plus a 200th part, plus 10 us. All of this may be before
        // the jump, or after it.
        let most = 40_220_000;
        let (first, end) = (60_000_000 - most, 40_000_000 + most);
        assert!(epochs.mono_ns(first - 1).is_some() && epochs.mono_ns(end).is_some());
        let twice = (epochs.mono_ns(first), epochs.mono_ns(end - 1));
        assert_eq!(twice, (None, None));
    }

    #[test]
    fn clocks_that_jump_without_end_are_followed_for_a_while() {
        // The TSC restarts at each anchor.
        let anchors: Vec<(u64, u64)> = (1..1_000)
            .map(|nth| (5_000 - nth, nth * 1_000_000))
            .collect();
        let mut epochs = epochs(&anchors);
        assert_eq!(epochs.iter().count(), MOST);
        let (_, last_ns) = epochs.span_mono_ns().unwrap();
        assert_eq!(last_ns, MOST as u64 * 1_000_000);
        // An anchor that would continue the last epoch comes too late.
        epochs.add(&Anchor {
            before_tsc: 5_000 - MOST as u64 + 2_000_000,
            mono_ns: last_ns + 1_000_000,
            after_tsc: 5_000 - MOST as u64 + 2_000_000,
        });
        assert_eq!(epochs.span_mono_ns(), Some((1_000_000, last_ns)));
    }

    #[test]
    fn anchors_that_go_back_report_nothing() {
        let mut epochs = epochs(&[(1_000, 5_000), (2_000, 5_000), (3_000, 4_000)]);
        assert_eq!(epochs.span_mono_ns(), Some((5_000, 5_000)));
        epochs.add(&Anchor {
            before_tsc: 9_000,
            mono_ns: 9_000,
            after_tsc: 8_000,
        });
        assert_eq!(epochs.span_mono_ns(), Some((5_000, 5_000)));
    }
}
