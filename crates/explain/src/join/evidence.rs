//! What the data say about a vCPU and a CPU of the guest: whether the exits of the one lie in
//! the gaps of the other.

use super::crossing::Crossing;
use super::felt::Holes;

/// With fewer tests nothing is said.
const ENOUGH: u64 = 20;
/// An exit that lies in a gap this often wherever it is laid down tells nothing.
const LIKELY: f64 = 0.5;
/// So many more than one in ten may lie elsewhere before that contradicts: bad luck among few.
const STRAYS: u64 = 2;
/// One in so many may be wherever it is: an event was lost, a gap found no room.
const STRAY_PART: usize = 20;

/// The exits of one vCPU laid over what one CPU of the guest tells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Evidence {
    /// Gaps, and stretches between two gaps, that hold exits which had to be felt; of periodic
    /// tasks, instants at which they ran.
    pub(super) tested: u64,
    /// How many of them are gaps; or lie in no exit.
    pub(super) inside: u64,
    /// How likely they would be anyway.
    pub(super) chance: f64,
    /// How much earlier and later exits could lie and still nearly all be in their gaps.
    pub(super) slack_ns: Option<(i64, i64)>,
    pub(super) verdict: Verdict,
}

/// What it comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// They are not the same.
    Contradicted,
    /// Too little to tell.
    Open,
    /// They are the same.
    Confirmed,
}

impl Evidence {
    /// There was nothing to look at.
    pub(super) fn nothing() -> Evidence {
        Evidence {
            tested: 0,
            inside: 0,
            chance: 0.0,
            slack_ns: None,
            verdict: Verdict::Open,
        }
    }

    /// How far the true clock can be from the one recorded, in nanoseconds; `None` where
    /// nothing tested it.
    pub(super) fn widest_slack_ns(&self) -> Option<u64> {
        let (earlier_ns, later_ns) = self.slack_ns?;
        Some(earlier_ns.unsigned_abs().max(later_ns.unsigned_abs()))
    }

    /// How many of a hundred tests found a gap.
    pub(super) fn inside_percent(&self) -> f64 {
        self.inside as f64 * 100.0 / self.tested.max(1) as f64
    }
}

/// Of gaps: how many must be where the exits say.
fn verdict(tested: u64, inside: u64) -> Verdict {
    if tested < ENOUGH {
        Verdict::Open
    } else if inside * 10 >= tested * 9 {
        Verdict::Confirmed
    } else if (inside + STRAYS) * 10 >= tested * 9 {
        Verdict::Open
    } else {
        Verdict::Contradicted
    }
}

/// Lays exits (begin and end on the host's CLOCK_MONOTONIC, sorted) over gaps. A workload that
/// polls feels every exit of at least the threshold, and its readings of the clock are
/// outside of all of them.
pub(super) fn examine(
    exits: &[(u64, u64)],
    crossing: &Crossing<'_>,
    holes: &Holes<'_>,
    threshold_ns: u64,
) -> Evidence {
    let margin_ns = crossing.host.bound_ns();
    let margin_ns = margin_ns.saturating_add(crossing.guest.offset_bound_ns());
    let margin_tsc = cycles(margin_ns, crossing.guest.tsc_hz());
    let felt_from_ns = threshold_ns.saturating_add(margin_ns.saturating_mul(2));
    let mut tests = Tests::default();
    for (start_ns, end_ns) in exits {
        if end_ns - start_ns < felt_from_ns {
            continue;
        }
        let crossed = (crossing.guest_tsc(*start_ns)).zip(crossing.guest_tsc(*end_ns));
        let Some(((line, start_tsc), (end_line, end_tsc))) = crossed else {
            continue;
        };
        if line != end_line || !holes.polled(start_tsc, end_tsc, margin_tsc) {
            continue;
        }
        let chance = holes.chance(end_tsc - start_tsc);
        if chance <= LIKELY {
            tests.add(holes, (start_tsc, end_tsc), margin_tsc, chance);
        }
    }
    tests.conclude(crossing.guest.tsc_hz())
}

#[derive(Debug, Default)]
struct Tests {
    exits: u64,
    chances: f64,
    /// The last stretch between gaps that held an exit, and how many did.
    between: Option<usize>,
    outside: u64,
    /// The gap that held the last exit inside of one, and how its exits could be shifted.
    gap: Option<(usize, i64, i64)>,
    earliest: Vec<i64>,
    latest: Vec<i64>,
}

impl Tests {
    fn add(&mut self, holes: &Holes<'_>, (start, end): (u64, u64), margin: u64, chance: f64) {
        self.exits += 1;
        self.chances += chance;
        match holes.find(start, end, margin) {
            Err(between) => {
                self.outside += u64::from(self.between != Some(between));
                self.between = Some(between);
            }
            Ok(place) => {
                let (from, to) = holes.gap(place);
                let earliest = from.wrapping_sub(start).cast_signed();
                let latest = to.wrapping_sub(end).cast_signed();
                match &mut self.gap {
                    Some((last, low, high)) if *last == place => {
                        (*low, *high) = (earliest.max(*low), latest.min(*high));
                    }
                    _ => {
                        self.close_gap();
                        self.gap = Some((place, earliest, latest));
                    }
                }
            }
        }
    }

    fn close_gap(&mut self) {
        if let Some((_, earliest, latest)) = self.gap.take() {
            self.earliest.push(earliest);
            self.latest.push(latest);
        }
    }

    fn conclude(mut self, tsc_hz: u64) -> Evidence {
        self.close_gap();
        let inside = self.earliest.len() as u64;
        let stray = self.earliest.len() / STRAY_PART;
        self.earliest.sort_unstable_by(|a, b| b.cmp(a));
        self.latest.sort_unstable();
        let ends = self.earliest.get(stray).zip(self.latest.get(stray));
        let tested = inside + self.outside;
        Evidence {
            tested,
            inside,
            verdict: verdict(tested, inside),
            chance: self.chances / self.exits.max(1) as f64,
            slack_ns: ends
                .map(|(low, high)| (whole_ns(*low, tsc_hz, false), whole_ns(*high, tsc_hz, true))),
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
