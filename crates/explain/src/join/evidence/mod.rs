//! Evidence that a vCPU is a CPU of the guest: the exits of the vCPU lie in the gaps of the CPU.

use super::crossing::Crossing;
use super::elsewhere::Rivals;
use super::observed_cpu::Holes;
use super::odds::{STRAY, Stakes, misfit};
use super::shifted::{self, Looks, Overlaid};
use super::slack::{Room, Slack, Test, apart, rooms};
use super::trial::{Span, Trial};

/// Maximum probability of chance up to which an exit is tested. The first value holds if gaps may
/// be lost, the second if no gaps can be lost.
const LIKELY: (f64, f64) = (0.5, 0.99);
/// Divisor of the number of exits in gaps. If gaps were lost, this part of the exits may lie in a
/// gap that another event caused.
const STRAY_PART: usize = 20;

/// Evidence from the exits of one vCPU, compared with the gaps of one CPU of the guest.
#[derive(Debug, Clone, Default)]
pub(super) struct Evidence {
    /// Number of tests: gaps, and times between two gaps, that contain exits which the guest had to
    /// observe. For periodic tasks, a gap is the time between two instants at which a task ran.
    pub(super) tested: u64,
    /// Number of tests whose exits lie in a gap.
    pub(super) inside: u64,
    /// Number of tested gaps that contradict the recorded clock: the guest ran at an instant at
    /// which, by this clock, its vCPU was in an exit.
    pub(super) contradicted: u64,
    /// Mean probability that an exit lies in a gap by chance.
    pub(super) chance: f64,
    /// Largest shifts of the exits to earlier and to later times at which no more exits contradict
    /// the clock than without a shift. `None` without tests.
    pub(super) slack_ns: Option<(i64, i64)>,
    /// Odds against chance, in decades, if all tests are independent.
    pub(super) decades: f64,
    /// Evidence of the failed tests alone, in decades; 0 up to a tolerable rate of failures,
    /// negative above.
    pub(super) misfit: f64,
    /// Comparison of the recorded clock with other clocks; `None` if no other clock was compared.
    pub(super) rivals: Option<Rivals>,
    /// Frequency of the guest's counter, in Hz.
    pub(super) tsc_hz: u64,
}

impl Evidence {
    /// Returns the largest possible error of the recorded clock, in nanoseconds; `None` without
    /// tests.
    pub(super) fn widest_slack_ns(&self) -> Option<u64> {
        let (earlier_ns, later_ns) = self.slack_ns?;
        Some(earlier_ns.unsigned_abs().max(later_ns.unsigned_abs()))
    }
}

/// Minimum number of gaps with which each exit is compared: its own, the adjacent ones, and one
/// more.
const OWN: usize = 4;
/// Factor on the width of the slack. A clock that is off by no more than the product does not count
/// as another clock.
const NEAR: i64 = 2;

/// Conditions of a test.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rules {
    /// Minimum length of an exit, in nanoseconds.
    pub(super) threshold_ns: u64,
    /// Error bound of the clock readings of both sides, in nanoseconds.
    pub(super) margin_ns: u64,
    /// Whether gaps may be lost. If so, the failure rate of the same machine does not depend on
    /// chance; if not, it is proportional to the probability that a test fails by chance.
    pub(super) loses_gaps: bool,
    /// Whether to compute the possible error of the clock.
    pub(super) bounds: bool,
}

/// Compares exits with gaps. `exits` are start and end in nanoseconds of the host's
/// CLOCK_MONOTONIC, sorted. A polling workload observes every exit of at least the threshold, and
/// reads its clock only outside of exits.
pub(super) fn examine(
    exits: impl Iterator<Item = (u64, u64)>,
    crossing: &Crossing<'_>,
    holes: &Holes<'_>,
    rules: Rules,
) -> Tests {
    let Rules {
        threshold_ns,
        margin_ns,
        loses_gaps,
        ..
    } = rules;
    let likely = if loses_gaps { LIKELY.0 } else { LIKELY.1 };
    let mut tests = Tests {
        rules,
        margin_tsc: cycles(margin_ns, crossing.guest.tsc_hz()),
        dated_tsc: cycles(crossing.guest.bound_ns(), crossing.guest.tsc_hz()),
        stray: STRAY + holes.lost_part(),
        looks_left: holes.instants() * EXITS_AT_ONCE,
        ..Tests::default()
    };
    let observed_from_ns = threshold_ns.saturating_add(margin_ns.saturating_mul(2));
    for (start_ns, end_ns) in exits {
        if end_ns - start_ns < observed_from_ns {
            continue;
        }
        let crossed = (crossing.guest_tsc(start_ns)).zip(crossing.guest_tsc(end_ns));
        let Some(((line, start_tsc), (end_line, end_tsc))) = crossed else {
            continue;
        };
        if line != end_line || !holes.polled(start_tsc, end_tsc, tests.margin_tsc) {
            continue;
        }
        let chance = holes.chance(end_tsc - start_tsc, tests.margin_tsc);
        if chance <= likely {
            tests.add(holes, (start_tsc, end_tsc), chance);
        }
    }
    tests
}

/// Mean number of exits that are compared with each instant at which the guest ran. Exits beyond
/// this limit are not tested. Only in forged recordings does a gap contain many exits and many
/// instants.
const EXITS_AT_ONCE: usize = 16;

/// All tests of a pair.
#[derive(Debug, Default)]
pub(super) struct Tests {
    pub(super) all: Vec<Trial>,
    pub(super) margin_tsc: u64,
    /// Error bound of a time of the guest's CLOCK_MONOTONIC that is converted to its counter, in
    /// cycles.
    dated_tsc: u64,
    stray: f64,
    /// Number of comparisons between an exit and an instant in a gap that are still allowed.
    looks_left: usize,
    rules: Rules,
    exits: u64,
    chances: f64,
    /// Start and end of all tested exits.
    spans: Vec<Span>,
    /// Latest time between gaps that contained an exit: the index of the next gap, and the index in
    /// `all`.
    between: Option<(usize, usize)>,
    /// Latest gap that contained an exit: the index of the gap, and the index in `all`.
    gap: Option<(usize, usize)>,
    slack: Slack,
    /// Like `slack`, but also limited by the instants inside of gaps at which the vCPU ran its
    /// guest.
    inner: Slack,
}

impl Tests {
    fn add(&mut self, holes: &Holes<'_>, exit: Span, chance: f64) {
        let found = holes.find(exit.0, exit.1, self.margin_tsc);
        if let (Ok(number), true) = (found, self.rules.bounds) {
            let Some(left) = self.looks_left.checked_sub(holes.ran_in(number).len()) else {
                return;
            };
            self.looks_left = left;
        }
        self.exits += 1;
        self.chances += chance;
        let chance = chance as f32;
        if self.rules.bounds {
            self.spans.push(exit);
        }
        match found {
            Err(between) => match self.between {
                Some((last, place)) if last == between => {
                    self.all[place].merge(exit, chance, false)
                }
                _ => self.between = Some((between, self.first(exit, chance, false))),
            },
            Ok(number) => {
                if self.rules.bounds {
                    self.bound(holes, exit, number);
                }
                let agrees = !holes.ran_during(exit, self.ran_margin_tsc());
                match self.gap {
                    Some((last, place)) if last == number => {
                        self.all[place].merge(exit, chance, agrees);
                    }
                    _ => self.gap = Some((number, self.first(exit, chance, agrees))),
                }
            }
        }
    }

    /// Adds the shifts at which this exit stays in its gap to `slack`. Adds the shifts at which the
    /// exit also contains no instant of the guest to `inner`.
    fn bound(&mut self, holes: &Holes<'_>, exit: Span, number: usize) {
        let (from, to) = holes.gap(number);
        let earliest = from.wrapping_sub(exit.0).cast_signed();
        let latest = to.wrapping_sub(exit.1).cast_signed();
        let room = (earliest.min(0), latest.max(0));
        self.slack.add(Test::Gap(number), vec![room]);
        let inner = rooms(
            exit,
            (from, to),
            holes.ran_in(number),
            self.ran_margin_tsc(),
        );
        self.inner.add(Test::Gap(number), inner);
    }

    /// Returns the error bound of an instant at which the guest ran, relative to an exit, in
    /// cycles.
    pub(super) fn ran_margin_tsc(&self) -> u64 {
        self.margin_tsc.saturating_add(self.dated_tsc)
    }

    fn first(&mut self, exit: Span, chance: f32, agrees: bool) -> usize {
        self.all.push(Trial {
            exit,
            chance,
            agrees,
        });
        self.all.len() - 1
    }

    /// Returns the odds against chance, in decades.
    pub(super) fn decades(&self) -> f64 {
        let of = |reported: &Trial| self.stakes(reported).decades(reported.agrees);
        self.all.iter().map(of).sum()
    }

    /// Returns the rate at which this test fails for the same machine.
    fn stray(&self, reported: &Trial) -> f64 {
        match self.rules.loses_gaps {
            true => self.stray,
            false => self.stray * (1.0 - f64::from(reported.chance)),
        }
    }

    pub(super) fn stakes(&self, reported: &Trial) -> Stakes {
        Stakes::new(f64::from(reported.chance), self.stray(reported))
    }

    /// Returns the smallest and the largest error of the clock within `open`. Up to `lost` more
    /// tests may be contradicted than by the recorded clock. An exit may lie in a gap next to its
    /// own. Returns all of `open` if the search would visit more than `room` gaps and instants.
    fn reach(&self, holes: &Holes<'_>, open: Room, lost: usize, room: usize) -> Option<Room> {
        let margin = self.ran_margin_tsc();
        let reach = open.0.unsigned_abs().max(open.1.unsigned_abs());
        let mut slack = Slack::default();
        let mut left = room;
        for exit in &self.spans {
            let near = holes.places_near(*exit, reach);
            let looks = near.clone().map(|place| 1 + holes.ran_in(place).len());
            let Some(rest) = left.checked_sub(looks.sum()) else {
                return Some(open);
            };
            left = rest;
            let test = match holes.find(exit.0, exit.1, self.margin_tsc) {
                Ok(gap) => Test::Gap(gap),
                Err(between) => Test::Between(between),
            };
            let rooms =
                near.flat_map(|place| rooms(*exit, holes.gap(place), holes.ran_in(place), margin));
            let within = rooms.map(|(first, last)| (first.max(open.0), last.min(open.1)));
            slack.add(test, apart(within));
        }
        slack.reach(lost)
    }

    /// Returns the evidence, including a comparison with other offsets within the limits of
    /// `looks`. A shift is as good as no shift if no more exits contradict it. If gaps were lost,
    /// some exits lie in gaps of other exits.
    pub(super) fn summarize(mut self, holes: &Holes<'_>, tsc_hz: u64, looks: Looks) -> Evidence {
        let (tested, inside) = (self.all.len(), self.slack.gaps());
        let outside = tested - inside;
        let lost = match holes.lost_part() > 0.0 {
            true => inside / STRAY_PART,
            false => 0,
        };
        let contradicted = self.inner.against();
        let strays = self.all.iter().map(|reported| self.stray(reported)).sum();
        let margin = self.margin_tsc.min(i64::MAX as u64).cast_signed();
        // Offsets at which half of the gaps still contain their own exits, or offsets that are
        // hardly larger than the width of the slack. The error bound covers these offsets, so none
        // of them counts as another clock.
        let half = self.slack.reach(inside / 2).unwrap_or((0, 0));
        let near = self.inner.reach(lost + outside).map_or(0, |(low, high)| {
            high.saturating_sub(low).saturating_mul(NEAR)
        });
        let open = (
            half.0.min(-near).saturating_sub(margin),
            half.1.max(near).saturating_add(margin),
        );
        let slack = self.reach(
            holes,
            open,
            lost,
            looks.aim.saturating_add(self.spans.len() * OWN),
        );
        let overlaid = Overlaid {
            all: &self.all,
            margin_tsc: self.margin_tsc,
            ran_margin_tsc: self.ran_margin_tsc(),
            stakes: &|trial| self.stakes(trial),
        };
        Evidence {
            tested: tested as u64,
            inside: inside as u64,
            contradicted: contradicted as u64,
            chance: self.chances / self.exits.max(1) as f64,
            slack_ns: slack
                .map(|(low, high)| (whole_ns(low, tsc_hz, false), whole_ns(high, tsc_hz, true))),
            decades: self.decades(),
            misfit: misfit((outside + contradicted) as f64, strays),
            rivals: shifted::overlay(&overlaid, holes, tsc_hz, looks).rivals(open),
            tsc_hz,
        }
    }
}

fn cycles(ns: u64, tsc_hz: u64) -> u64 {
    let cycles = (u128::from(ns) * u128::from(tsc_hz)).div_ceil(1_000_000_000);
    u64::try_from(cycles).unwrap_or(u64::MAX)
}

/// Converts cycles to whole nanoseconds, rounded up if `up` is true, and otherwise down.
fn whole_ns(cycles: i64, tsc_hz: u64, up: bool) -> i64 {
    let (cycles, tsc_hz) = (i128::from(cycles) * 1_000_000_000, i128::from(tsc_hz));
    let rounded = cycles.div_euclid(tsc_hz) + i128::from(up && cycles % tsc_hz != 0);
    i64::try_from(rounded).unwrap_or(if cycles < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests;
