//! Lays the TSC over CLOCK_MONOTONIC by straight lines between anchors.

use vmnoise_events::{Anchor, ClockFacts};

use crate::near::near_back;

/// Anchors kept once everything before them is explained: 82 s at 50 a second, so that
/// a gap that ends late still finds the line its begin lies on.
const KEPT: usize = 4096;
const NS_PER_S: u128 = 1_000_000_000;

/// A moment on both clocks.
#[derive(Debug, Clone, Copy)]
struct Point {
    tsc: u64,
    mono_ns: u64,
}

/// A straight line from `from`: `rise_ns` for every `run_tsc` (never 0).
#[derive(Debug, Clone, Copy)]
struct Line {
    from: Point,
    run_tsc: u64,
    rise_ns: u64,
}

impl Line {
    fn through(from: Point, to: Point) -> Self {
        Self {
            from,
            run_tsc: to.tsc - from.tsc,
            rise_ns: to.mono_ns - from.mono_ns,
        }
    }

    /// The other way round.
    fn turned(self) -> Line {
        let Point { tsc, mono_ns } = self.from;
        Line {
            from: Point {
                tsc: mono_ns,
                mono_ns: tsc,
            },
            run_tsc: self.rise_ns,
            rise_ns: self.run_tsc,
        }
    }

    /// Rounded down on both sides of `from`, which keeps the map monotone; values
    /// outside the clock's range stop at its ends.
    fn mono_ns(self, tsc: u64) -> u64 {
        let rise = |distance: u64| u128::from(distance) * u128::from(self.rise_ns);
        let run = u128::from(self.run_tsc);
        let from = u128::from(self.from.mono_ns);
        let mono = match tsc.checked_sub(self.from.tsc) {
            Some(after) => from.saturating_add(rise(after) / run),
            None => from.saturating_sub(rise(self.from.tsc - tsc).div_ceil(run)),
        };
        u64::try_from(mono).unwrap_or(u64::MAX)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct ClockMap {
    points: Vec<Point>,
    tsc_hz: u64,
    offset_bound_tsc: u64,
    widest_bracket_tsc: u64,
    largest_deviation_ns: u64,
}

impl ClockMap {
    pub(crate) fn new(facts: &ClockFacts) -> Self {
        Self {
            points: Vec::new(),
            tsc_hz: facts.tsc_hz.max(1),
            offset_bound_tsc: facts.offset_bound_tsc,
            widest_bracket_tsc: 0,
            largest_deviation_ns: 0,
        }
    }

    /// Takes an anchor; `false` where it does not lie after the one before on both
    /// clocks, or its bracket is inside out, and is therefore not taken.
    pub(crate) fn add(&mut self, anchor: &Anchor) -> bool {
        let Some(width_tsc) = anchor.after_tsc.checked_sub(anchor.before_tsc) else {
            return false;
        };
        let new = Point {
            tsc: anchor.before_tsc + width_tsc / 2,
            mono_ns: anchor.mono_ns,
        };
        if let Some(last) = self.points.last()
            && (new.tsc <= last.tsc || new.mono_ns <= last.mono_ns)
        {
            return false;
        }
        if let [.., before, middle] = self.points[..] {
            let straight_ns = Line::through(before, new).mono_ns(middle.tsc);
            let deviation_ns = straight_ns.abs_diff(middle.mono_ns);
            self.largest_deviation_ns = self.largest_deviation_ns.max(deviation_ns);
        }
        self.widest_bracket_tsc = self.widest_bracket_tsc.max(width_tsc);
        self.points.push(new);
        true
    }

    /// Whether the TSC went back before this anchor, although time went on.
    pub(crate) fn went_back(&self, anchor: &Anchor) -> bool {
        let last = self.points.last();
        last.is_some_and(|last| anchor.mono_ns > last.mono_ns && anchor.after_tsc < last.tsc)
    }

    pub(crate) fn has_anchor(&self) -> bool {
        !self.points.is_empty()
    }

    /// Whether an anchor lies at or past `tsc`, so that its place is final.
    pub(crate) fn covers(&self, tsc: u64) -> bool {
        self.points.last().is_some_and(|last| last.tsc >= tsc)
    }

    /// The TSC of the first anchor and of the last.
    pub(crate) fn span_tsc(&self) -> Option<(u64, u64)> {
        Some((self.points.first()?.tsc, self.points.last()?.tsc))
    }

    /// CLOCK_MONOTONIC of the first anchor and of the last, in nanoseconds.
    pub(crate) fn span_mono_ns(&self) -> Option<(u64, u64)> {
        Some((self.points.first()?.mono_ns, self.points.last()?.mono_ns))
    }

    /// CLOCK_MONOTONIC in nanoseconds at `tsc`. Outside the anchors the nearest
    /// pair's line goes on; with fewer than two, the frequency measured at start.
    pub(crate) fn mono_ns(&self, tsc: u64) -> u64 {
        self.line_at(|point| point.tsc <= tsc).mono_ns(tsc)
    }

    /// The TSC at this instant of CLOCK_MONOTONIC, along the same lines.
    pub(crate) fn tsc(&self, mono_ns: u64) -> u64 {
        let line = self.line_at(|point| point.mono_ns <= mono_ns);
        line.turned().mono_ns(mono_ns)
    }

    /// The line at a time that lies after the points that are `before`.
    fn line_at(&self, before: impl Fn(&Point) -> bool) -> Line {
        match self.points[..] {
            [] | [_] => Line {
                from: self
                    .points
                    .first()
                    .copied()
                    .unwrap_or(Point { tsc: 0, mono_ns: 0 }),
                run_tsc: self.tsc_hz,
                rise_ns: NS_PER_S as u64,
            },
            [_, _, ..] => {
                let right = near_back(&self.points, before);
                let right = right.clamp(1, self.points.len() - 1);
                Line::through(self.points[right - 1], self.points[right])
            }
        }
    }

    /// Bound of the error of a converted time in nanoseconds: half the widest
    /// bracket, plus the largest distance of an anchor from the line through its
    /// neighbours, plus the bound of the guest's offset. `None` without anchors.
    pub(crate) fn bound_ns(&self) -> Option<u64> {
        self.has_anchor().then(|| {
            self.duration_ns(self.widest_bracket_tsc.div_ceil(2))
                .saturating_add(self.largest_deviation_ns)
                .saturating_add(self.duration_ns(self.offset_bound_tsc))
        })
    }

    /// A number of cycles that has no place in time, in whole nanoseconds.
    pub(crate) fn whole_ns(&self, cycles: u64) -> u64 {
        let ns = u128::from(cycles) * NS_PER_S / u128::from(self.tsc_hz);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// A number of cycles in nanoseconds, rounded up: for bounds.
    pub(crate) fn duration_ns(&self, cycles: u64) -> u64 {
        let ns = (u128::from(cycles) * NS_PER_S).div_ceil(u128::from(self.tsc_hz));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Forgets anchors that no time still to be converted needs.
    pub(crate) fn prune(&mut self) {
        if self.points.len() > 2 * KEPT {
            self.points.drain(..self.points.len() - KEPT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmnoise_events::ClockSource;

    fn map(anchors: &[(u64, u64)]) -> ClockMap {
        let mut map = ClockMap::new(&ClockFacts {
            source: ClockSource::Tsc,
            tsc_hz: 2_000_000_000,
            offset_proof: None,
            offset_tsc: 0,
            offset_bound_tsc: 10,
            bracket_tsc: 0,
        });
        for &(tsc, mono_ns) in anchors {
            let anchor = Anchor {
                before_tsc: tsc - 20,
                mono_ns,
                after_tsc: tsc + 20,
            };
            assert!(map.add(&anchor));
        }
        map
    }

    #[test]
    fn interpolates_between_and_extrapolates_outside() {
        let map = map(&[(1000, 500), (3000, 1500), (4000, 2500)]);
        assert_eq!(map.mono_ns(1000), 500);
        assert_eq!(map.mono_ns(2000), 1000);
        assert_eq!(map.mono_ns(3500), 2000);
        assert_eq!(map.mono_ns(5000), 3500);
        assert_eq!(map.mono_ns(998), 499);
        assert_eq!(map.mono_ns(999), 499);
        assert_eq!(map.mono_ns(0), 0);
    }

    #[test]
    fn without_a_pair_the_measured_frequency_serves() {
        assert_eq!(map(&[]).mono_ns(2000), 1000);
        assert_eq!(map(&[(1000, 5000)]).mono_ns(1200), 5100);
        assert_eq!(map(&[(1000, 5000)]).mono_ns(800), 4900);
    }

    #[test]
    fn extremes_stop_at_the_ends_of_the_clock() {
        let map = map(&[(20, u64::MAX - 10), (21, u64::MAX)]);
        assert_eq!(map.mono_ns(u64::MAX), u64::MAX);
        assert_eq!(map.mono_ns(0), u64::MAX - 210);
    }

    #[test]
    fn is_monotone_across_a_change_of_slope() {
        let map = map(&[(100, 1000), (107, 1003), (150, 1090), (1000, 1100)]);
        let times: Vec<u64> = (0..2000).map(|tsc| map.mono_ns(tsc)).collect();
        assert!(times.is_sorted());
    }

    #[test]
    fn refuses_anchors_that_go_back() {
        let mut map = map(&[(1000, 500)]);
        for (before_tsc, mono_ns, after_tsc) in [(990, 600, 1010), (1090, 500, 1110), (9, 900, 8)] {
            assert!(!map.add(&Anchor {
                before_tsc,
                mono_ns,
                after_tsc
            }));
        }
        assert!(map.covers(1000) && !map.covers(1001));
    }

    #[test]
    fn a_counter_that_goes_back_is_told_from_an_anchor_that_comes_twice() {
        let map = map(&[(1000, 500)]);
        let went_back = |tsc, mono_ns| {
            map.went_back(&Anchor {
                before_tsc: tsc,
                mono_ns,
                after_tsc: tsc,
            })
        };
        assert!(went_back(900, 600));
        assert!(!went_back(1_100, 600) && !went_back(1_000, 600));
        assert!(!went_back(900, 500) && !went_back(900, 400));
    }

    #[test]
    fn the_bound_adds_bracket_deviation_and_offset() {
        assert_eq!(map(&[]).bound_ns(), None);
        // 40 cycles of bracket: 10 ns; 10 cycles of offset: 5 ns.
        assert_eq!(map(&[(1000, 500)]).bound_ns(), Some(15));
        // The middle anchor is 7 ns above the line through its neighbours.
        assert_eq!(
            map(&[(1000, 500), (2000, 1007), (3000, 1500)]).bound_ns(),
            Some(22)
        );
    }
}
