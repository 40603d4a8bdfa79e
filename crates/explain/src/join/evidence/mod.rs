//! What the data say about a vCPU and a CPU of the guest: whether the exits of the one lie in
//! the gaps of the other.

use super::crossing::Crossing;
use super::elsewhere::Rivals;
use super::observed_cpu::Holes;
use super::odds::{STRAY, Stakes, misfit};
use super::shifted::{self, Looks, Overlaid};
use super::slack::{Room, Slack, Test, apart, rooms};
use super::trial::{Span, Trial};

/// An exit that lies in a gap this often wherever it is laid down says nothing, where gaps may
/// be lost; and where none can be.
const LIKELY: (f64, f64) = (0.5, 0.99);
/// Where gaps were lost, one exit in so many may lie in a gap that is not its own.
const STRAY_PART: usize = 20;

/// The exits of one vCPU laid over what one CPU of the guest reports.
#[derive(Debug, Clone, Default)]
pub(super) struct Evidence {
    /// Gaps, and stretches between two gaps, that hold exits which had to be observed; of periodic
    /// tasks, gaps between instants at which they ran.
    pub(super) tested: u64,
    /// How many of them are gaps.
    pub(super) inside: u64,
    /// In how many of these gaps the guest ran at an instant at which, by the recorded clock, its
    /// vCPU was out of it.
    pub(super) contradicted: u64,
    /// How likely they would be anyway.
    pub(super) chance: f64,
    /// How much earlier and later exits could lie, and no more of them contradict the clock.
    pub(super) slack_ns: Option<(i64, i64)>,
    /// Odds against chance, in decades, all tests taken for independent.
    pub(super) decades: f64,
    /// What the failures alone say against it, in decades; 0 as long as they are tolerable.
    pub(super) misfit: f64,
    /// How the same tests turn out by other clocks; `None` where no other could be tried.
    pub(super) rivals: Option<Rivals>,
    /// So many of these cycles make a second.
    pub(super) tsc_hz: u64,
}

impl Evidence {
    /// How far the true clock can be from the one recorded, in nanoseconds; `None` where
    /// nothing tested it.
    pub(super) fn widest_slack_ns(&self) -> Option<u64> {
        let (earlier_ns, later_ns) = self.slack_ns?;
        Some(earlier_ns.unsigned_abs().max(later_ns.unsigned_abs()))
    }
}

/// Each exit is laid over so many gaps at least: its own, those beside it, and one more.
const OWN: usize = 4;
/// A clock that is off by no more than so many times the width of the slack is no other one.
const NEAR: i64 = 2;

/// What has to be observed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rules {
    /// Exits of this length at least.
    pub(super) threshold_ns: u64,
    /// What the readings of either side's clocks may be wrong by.
    pub(super) margin_ns: u64,
    /// Whether a gap may be lost on its way: then a test fails of the same machine however likely
    /// it agrees by chance, and else in proportion to how likely it fails by chance.
    pub(super) loses_gaps: bool,
    /// Whether it is asked how far off the clock can be.
    pub(super) bounds: bool,
}

/// Lays exits (begin and end on the host's CLOCK_MONOTONIC, sorted) over gaps. A workload that
/// polls observes every exit of at least the threshold, and its readings of the clock are
/// outside of all of them.
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

/// So many exits look at each instant at which the guest ran, on average; those after them are not tested.
/// A gap holds a few of either, unless somebody made the recordings up.
const EXITS_AT_ONCE: usize = 16;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Tests {
    pub(super) all: Vec<Trial>,
    pub(super) margin_tsc: u64,
    /// What a time of the guest's CLOCK_MONOTONIC may be wrong by on its counter.
    dated_tsc: u64,
    stray: f64,
    /// At how many instants in gaps exits may still look.
    looks_left: usize,
    rules: Rules,
    exits: u64,
    chances: f64,
    /// All exits that were tested.
    spans: Vec<Span>,
    /// The last stretch between gaps that held an exit, and its place in `all`.
    between: Option<(usize, usize)>,
    /// The gap that held the last exit inside of one, and its place in `all`.
    gap: Option<(usize, usize)>,
    slack: Slack,
    /// As `slack`, with the instants inside of gaps, at which the vCPU was in its guest.
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

    /// How far the clock can be off before this exit leaves its gap, or its part of it.
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

    /// An instant at which the guest ran may be off by so much, beside an exit.
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

    /// Odds against chance, in decades.
    pub(super) fn decades(&self) -> f64 {
        let of = |reported: &Trial| self.stakes(reported).decades(reported.agrees);
        self.all.iter().map(of).sum()
    }

    /// How often this test fails of the same machine.
    fn stray(&self, reported: &Trial) -> f64 {
        match self.rules.loses_gaps {
            true => self.stray,
            false => self.stray * (1.0 - f64::from(reported.chance)),
        }
    }

    pub(super) fn stakes(&self, reported: &Trial) -> Stakes {
        Stakes::new(f64::from(reported.chance), self.stray(reported))
    }

    /// How far the clock can be off within `open`, if so many tests may be contradicted that the
    /// recorded one does not: an exit may lie in a gap beside its own. All of `open` where that would
    /// be to look at more than so many gaps and instants in them.
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

    /// What it comes to, with a look at other offsets: so many places may be looked at. A shift
    /// is as good as none while no more exits contradict it; where gaps were lost, some lie in
    /// gaps of others.
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
        // Offsets by which half of the gaps still hold their own exits, or that are hardly further
        // away than the slack is wide: no other clock, but what the bound is about.
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

/// Rounded down, or up.
fn whole_ns(cycles: i64, tsc_hz: u64, up: bool) -> i64 {
    let (cycles, tsc_hz) = (i128::from(cycles) * 1_000_000_000, i128::from(tsc_hz));
    let rounded = cycles.div_euclid(tsc_hz) + i128::from(up && cycles % tsc_hz != 0);
    i64::try_from(rounded).unwrap_or(if cycles < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests;
