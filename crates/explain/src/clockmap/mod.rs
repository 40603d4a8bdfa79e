//! Converts TSC readings to CLOCK_MONOTONIC by straight lines between anchors.

use std::ops::Range;

use vmnoise_events::{Anchor, ClockFacts};

use crate::near::near_back;

/// Number of anchors that [`ClockMap::prune`] keeps: 82 s at 50 anchors per second. The start of a
/// gap that ends late can then still be converted.
const KEPT: usize = 4096;
const NS_PER_S: u128 = 1_000_000_000;
/// Divisor of the elapsed time: the quotient is the tolerated deviation of a clock's rate.
/// Disciplined clocks deviate by at most a tenth of this (adjtimex(2): 500 ppm). The rest exceeds
/// the error of the frequency measured at start.
const RATE_PART: u64 = 200;
/// Inverse of the largest rate error of a slewed clock (chrony slews by at most a twelfth).
const SLEW_PART: u64 = 8;
/// Deviation up to which a jump cannot be distinguished from a slow reading of the clocks.
const JUMP_NS: u64 = 10_000;
/// Maximum number of jumps. After more jumps, times are no longer converted. A machine is suspended
/// only rarely.
const MOST_JUMPS: usize = 64;

/// One instant on both clocks.
#[derive(Debug, Clone, Copy)]
struct Point {
    tsc: u64,
    mono_ns: u64,
}

/// Straight line through `from`: CLOCK_MONOTONIC rises by `rise_ns` for every `run_tsc` cycles
/// (never 0).
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

    /// Returns the line with the two clocks exchanged.
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

    /// Returns CLOCK_MONOTONIC on the line at this TSC reading. The result is rounded down on both
    /// sides of `from`, which keeps the map monotone. Results outside the range of a u64 saturate.
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

/// Two anchors between which one of the clocks jumped at an unknown time.
#[derive(Debug, Clone)]
struct Jump {
    from: Point,
    to: Point,
    /// TSC readings that may be from before or after the jump. A TSC that went back shows some
    /// readings twice.
    readings: Range<u64>,
}

#[derive(Debug, Clone)]
pub(crate) struct ClockMap {
    points: Vec<Point>,
    /// Jumps, ascending; at most [`MOST_JUMPS`].
    jumps: Vec<Jump>,
    tsc_hz: u64,
    offset_bound_tsc: u64,
    widest_bracket_tsc: u64,
    largest_deviation_ns: u64,
}

impl ClockMap {
    pub(crate) fn new(facts: &ClockFacts) -> Self {
        Self {
            points: Vec::new(),
            jumps: Vec::new(),
            tsc_hz: facts.tsc_hz.max(1),
            offset_bound_tsc: facts.offset_bound_tsc,
            widest_bracket_tsc: 0,
            largest_deviation_ns: 0,
        }
    }

    /// Adds an anchor. Returns `false` and ignores the anchor if it is not after the previous
    /// anchor on both clocks, or if its bracket is negative.
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
        if let Some(last) = self.points.last()
            && !self.goes_on(anchor)
        {
            let most_tsc = self.most_cycles(new.mono_ns - last.mono_ns);
            let first_tsc = last.tsc.min(new.tsc.saturating_sub(most_tsc));
            let end_tsc = new.tsc.max(last.tsc.saturating_add(most_tsc));
            self.jumps.push(Jump {
                from: *last,
                to: new,
                readings: first_tsc..end_tsc,
            });
        } else if let [.., before, middle] = self.points[..]
            && !self.ends_with_jump()
        {
            let straight_ns = Line::through(before, new).mono_ns(middle.tsc);
            let deviation_ns = straight_ns.abs_diff(middle.mono_ns);
            self.largest_deviation_ns = self.largest_deviation_ns.max(deviation_ns);
        }
        self.widest_bracket_tsc = self.widest_bracket_tsc.max(width_tsc);
        self.points.push(new);
        true
    }

    /// Returns whether times after the last anchor can no longer be converted. The reason is that
    /// the TSC went back before this anchor although time went on, or that a clock jumped more than
    /// [`MOST_JUMPS`] times.
    pub(crate) fn is_lost_at(&self, anchor: &Anchor) -> bool {
        let Some(last) = self.points.last() else {
            return false;
        };
        let went_back = anchor.after_tsc < last.tsc;
        let has_jumped = self.jumps.len() == MOST_JUMPS && !self.goes_on(anchor);
        anchor.mono_ns > last.mono_ns && (went_back || has_jumped)
    }

    /// Returns whether both clocks ran without a jump since the last anchor. Their rate may be the
    /// measured rate, or the rate before the last anchor. Some programs that set the clock (chrony)
    /// let it run 8 % faster for a while.
    pub(crate) fn goes_on(&self, anchor: &Anchor) -> bool {
        let Some(last) = self.points.last() else {
            return true;
        };
        let cycles = anchor.before_tsc.saturating_sub(last.tsc);
        let elapsed_ns = anchor.mono_ns.saturating_sub(last.mono_ns);
        let width_ns = self.duration_ns(anchor.after_tsc.saturating_sub(anchor.before_tsc));
        let allowed_ns = (elapsed_ns / RATE_PART)
            .saturating_add(width_ns)
            .saturating_add(JUMP_NS);
        let as_measured = self.whole_ns(cycles).abs_diff(elapsed_ns) <= allowed_ns;
        as_measured
            || matches!(self.points[..], [.., before, last] if {
                let line = Line::through(before, last);
                let expected_ns = line.mono_ns(anchor.before_tsc);
                self.may_be_slewed(line) && expected_ns.abs_diff(anchor.mono_ns) <= allowed_ns
            })
    }

    /// Returns the largest number of cycles that a TSC may count in this time without a jump.
    pub(crate) fn most_cycles(&self, elapsed_ns: u64) -> u64 {
        let most_ns = u128::from(elapsed_ns) + u128::from(elapsed_ns / RATE_PART + JUMP_NS);
        let cycles = most_ns
            .saturating_mul(u128::from(self.tsc_hz))
            .div_ceil(NS_PER_S);
        u64::try_from(cycles).unwrap_or(u64::MAX)
    }

    /// Returns whether slewing can give a clock this rate, without a jump.
    fn may_be_slewed(&self, line: Line) -> bool {
        self.whole_ns(line.run_tsc).abs_diff(line.rise_ns) <= line.rise_ns / SLEW_PART
    }

    /// Returns whether a clock may have jumped between these TSC readings, or whether one of them
    /// may be from before or after a jump. The times and the distance are then unknown.
    pub(crate) fn jumped_between(&self, start_tsc: u64, end_tsc: u64) -> bool {
        let mut jumps = self.jumps.iter();
        jumps.any(|jump| start_tsc < jump.readings.end && jump.readings.start < end_tsc)
    }

    /// Returns the number of jumps.
    pub(crate) fn jumps(&self) -> u64 {
        self.jumps.len() as u64
    }

    /// Returns the part of this window that lies between the two anchors around any jump, in
    /// nanoseconds of CLOCK_MONOTONIC.
    pub(crate) fn jumped_ns(&self, (start_ns, end_ns): (u64, u64)) -> u64 {
        let jumps = self.jumps.iter().map(|jump| {
            let until_ns = jump.to.mono_ns.min(end_ns);
            until_ns.saturating_sub(jump.from.mono_ns.max(start_ns))
        });
        jumps.sum()
    }

    /// Returns whether a clock jumped between the first two anchors.
    fn starts_with_jump(&self) -> bool {
        let first = self.points.first().zip(self.jumps.first());
        first.is_some_and(|(first, jump)| first.tsc == jump.from.tsc)
    }

    /// Returns whether a clock jumped between the last two anchors.
    fn ends_with_jump(&self) -> bool {
        let last = self.points.last().zip(self.jumps.last());
        last.is_some_and(|(last, jump)| last.tsc == jump.to.tsc)
    }

    pub(crate) fn has_anchor(&self) -> bool {
        !self.points.is_empty()
    }

    /// Returns whether an anchor lies at or after `tsc`. The time of `tsc` is then final.
    pub(crate) fn covers(&self, tsc: u64) -> bool {
        self.points.last().is_some_and(|last| last.tsc >= tsc)
    }

    /// Returns the TSC of the first and the last anchor.
    pub(crate) fn span_tsc(&self) -> Option<(u64, u64)> {
        Some((self.points.first()?.tsc, self.points.last()?.tsc))
    }

    /// Returns CLOCK_MONOTONIC of the first and the last anchor, in nanoseconds.
    pub(crate) fn span_mono_ns(&self) -> Option<(u64, u64)> {
        Some((self.points.first()?.mono_ns, self.points.last()?.mono_ns))
    }

    /// Returns CLOCK_MONOTONIC in nanoseconds at `tsc`. Outside of the anchors, the line of the
    /// nearest pair of anchors is extended. With fewer than two anchors, or with a jump in this
    /// pair, the frequency measured at start is used.
    pub(crate) fn mono_ns(&self, tsc: u64) -> u64 {
        self.line_at(|point| point.tsc <= tsc).mono_ns(tsc)
    }

    /// Returns the TSC at this time of CLOCK_MONOTONIC (ns), on the same lines as
    /// [`Self::mono_ns`].
    pub(crate) fn tsc(&self, mono_ns: u64) -> u64 {
        let line = self.line_at(|point| point.mono_ns <= mono_ns);
        line.turned().mono_ns(mono_ns)
    }

    /// Returns the line at a time. `before` returns true for the points that are not after this
    /// time.
    fn line_at(&self, before: impl Fn(&Point) -> bool) -> Line {
        let at_measured_rate = |from: &Point| Line {
            from: *from,
            run_tsc: self.tsc_hz,
            rise_ns: NS_PER_S as u64,
        };
        match &self.points[..] {
            [] => at_measured_rate(&Point { tsc: 0, mono_ns: 0 }),
            [only] => at_measured_rate(only),
            [first, .., last] => match near_back(&self.points, before) {
                0 if self.starts_with_jump() => at_measured_rate(first),
                after if after == self.points.len() && self.ends_with_jump() => {
                    at_measured_rate(last)
                }
                after => {
                    let right = after.clamp(1, self.points.len() - 1);
                    Line::through(self.points[right - 1], self.points[right])
                }
            },
        }
    }

    /// Returns the error bound of a converted time in nanoseconds: half the widest bracket, plus
    /// the largest distance of an anchor from the line through its neighbours, plus the bound of
    /// the guest's offset. `None` without anchors.
    pub(crate) fn bound_ns(&self) -> Option<u64> {
        self.has_anchor().then(|| {
            self.duration_ns(self.widest_bracket_tsc.div_ceil(2))
                .saturating_add(self.largest_deviation_ns)
                .saturating_add(self.duration_ns(self.offset_bound_tsc))
        })
    }

    /// Converts a number of cycles to whole nanoseconds at the measured frequency.
    pub(crate) fn whole_ns(&self, cycles: u64) -> u64 {
        let ns = u128::from(cycles) * NS_PER_S / u128::from(self.tsc_hz);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Converts a number of cycles to nanoseconds, rounded up, for use in bounds.
    pub(crate) fn duration_ns(&self, cycles: u64) -> u64 {
        let ns = (u128::from(cycles) * NS_PER_S).div_ceil(u128::from(self.tsc_hz));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Drops old anchors that no later conversion needs.
    pub(crate) fn prune(&mut self) {
        if self.points.len() > 2 * KEPT {
            self.points.drain(..self.points.len() - KEPT);
        }
    }
}

#[cfg(test)]
mod tests;
