//! Judges limits of quantities that a run can only estimate: percentiles, and the rate of gaps
//! above a length.

use vmnoise_events::coverage::{BlindSpot, Hidden, HiddenKind, Question};

use super::budget::Requirement;
use super::evidence::BudgetEvidence;
use super::found::{Found, blind};
use super::odds::{Decision, LONGEST_NS, Odds};
use super::reason::Reason;

/// Number of microseconds per second.
const MICROSECONDS: f64 = 1e6;

/// Judges the limit of a percentile.
pub(super) fn percentile(
    requirement: &Requirement,
    place: usize,
    evidence: &BudgetEvidence,
    risk: f64,
) -> Found {
    let part = requirement.quantity.part_above().unwrap_or(0.0);
    let value = percentile_of(requirement, place, evidence, part);
    let spots = Spots::of(evidence, requirement.at_most);
    // If values below the limit are missing, the part of values above the limit looks too large.
    let is_cut = |it: &BlindSpot| matches!(it.hidden(), Hidden::Threshold { .. });
    if spots.hidden.iter().any(is_cut) {
        return Found::open(Some(value), blind(spots.hidden));
    }
    let count = evidence.count();
    if count == 0 {
        return spots.open_at_once(None, Reason::NoValues);
    }
    let limit_ns = requirement.at_most as u64;
    let Some(odds) = evidence.odds(place, limit_ns, part, risk) else {
        return spots.open_at_once(Some(value), Reason::TooShortToCut);
    };
    let needed = odds.count_to_ask_for(part).ceil();
    let ns_of_each = evidence.length_ns as f64 / count as f64;
    Estimate {
        value,
        limit_ns,
        part,
        needed_ns: nanoseconds(needed * ns_of_each),
        if_open: Reason::TooFew {
            count,
            // The cast turns a float that is too large for a u64 into the largest u64.
            needed: (needed < u64::MAX as f64).then_some((needed as u64).max(count)),
        },
    }
    .decide(&odds, spots)
}

/// Returns the percentile of the run. The histogram keeps three digits of a length. The number of
/// values above the limit is exact. If no more values than allowed are above the limit, the result
/// is at most the limit.
fn percentile_of(
    requirement: &Requirement,
    place: usize,
    evidence: &BudgetEvidence,
    part: f64,
) -> f64 {
    let whole = &evidence.sample.whole;
    let [length_ns] = whole.lengths.at_quantiles([1.0 - part]);
    let edge_ns = length_ns.min(whole.max_gap_ns) as f64;
    match whole.above[place] as f64 <= part * evidence.count() as f64 {
        true => edge_ns.min(requirement.at_most),
        false => edge_ns,
    }
}

/// Judges the limit on the rate of gaps longer than `limit_ns`.
pub(super) fn rate(
    requirement: &Requirement,
    place: usize,
    limit_ns: u64,
    evidence: &BudgetEvidence,
    risk: f64,
) -> Found {
    let whole = &evidence.sample.whole;
    let spots = Spots::of(evidence, limit_ns as f64);
    if whole.runtime_ns == 0 {
        return spots.open_at_once(None, Reason::NoRuntime);
    }
    let value = whole.above[place] as f64 * 1e9 / whole.runtime_ns as f64;
    let part = requirement.at_most / MICROSECONDS;
    let Some(odds) = evidence.odds_of_rate(place, limit_ns, requirement.at_most, risk) else {
        return spots.open_at_once(Some(value), Reason::TooShortToCut);
    };
    // No run can prove that such gaps never occur.
    let times = match part > 0.0 {
        true => odds.count_to_ask_for(part) * 1e3 / whole.runtime_ns as f64,
        false => f64::INFINITY,
    };
    let needed_ns = nanoseconds(times * evidence.length_ns as f64);
    Estimate {
        value,
        limit_ns,
        part,
        needed_ns,
        if_open: Reason::TooShort { needed_ns },
    }
    .decide(&odds, spots)
}

/// Blind spots that may hide values above a limit.
struct Spots {
    /// Blind spots with a known number of lost values. The odds count each lost value as above the
    /// limit.
    lost: Vec<BlindSpot>,
    /// All other blind spots.
    hidden: Vec<BlindSpot>,
}

impl Spots {
    fn of(evidence: &BudgetEvidence, limit_ns: f64) -> Spots {
        let spots = evidence.coverage().blind_spots(Question::Often(limit_ns));
        let is_lost = |it: &BlindSpot| it.hides() == HiddenKind::StatedCount;
        let (lost, hidden) = spots.into_iter().partition(is_lost);
        Spots { lost, hidden }
    }

    /// Returns an undecided result with this reason. Neither more values nor fewer losses can
    /// decide the limit.
    fn open_at_once(self, value: Option<f64>, reason: Reason) -> Found {
        Found::open(value, [vec![reason], blind(self.hidden)].concat())
    }

    /// Returns an undecided result with this reason. A longer run, or a run without losses, may
    /// decide the limit.
    fn open(self, value: f64, reason: Reason) -> Found {
        let reasons = [vec![reason], blind(self.lost), blind(self.hidden)];
        Found::open(Some(value), reasons.concat())
    }
}

/// Limit on how often values may be above some length.
struct Estimate {
    /// Value of the quantity in the run, in the quantity's unit.
    value: f64,
    limit_ns: u64,
    /// Part of all values (0 to 1) that may be above the limit.
    part: f64,
    /// Recommended length of the run, in nanoseconds: a run of twice this length most likely
    /// decides. `None` if no length decides.
    needed_ns: Option<u64>,
    /// Reason to report if the run does not decide.
    if_open: Reason,
}

impl Estimate {
    fn decide(self, odds: &Odds, spots: Spots) -> Found {
        match odds.decide(self.part) {
            Decision::Kept => self.kept(odds, spots),
            Decision::Broken => Found::broken(self.value),
            Decision::Open => spots.open(self.value, self.if_open),
            Decision::Unmet => {
                let unmet = Reason::Unmet {
                    above_ns: self.limit_ns,
                    windows: odds.windows_met(),
                    needed_ns: self.needed_ns,
                };
                spots.open(self.value, unmet)
            }
        }
    }

    /// Returns the verdict that the limit is kept, and adds the assumption about bursts.
    fn kept(self, odds: &Odds, spots: Spots) -> Found {
        let mut found = Found::kept_but_for(self.value, spots.hidden);
        found.reasons.push(Reason::Assuming {
            above_ns: self.limit_ns,
            burst_ns: (!odds.has_met_bursts()).then_some(LONGEST_NS),
        });
        found
    }
}

/// Converts nanoseconds to a u64; `None` if a u64 cannot hold them.
fn nanoseconds(ns: f64) -> Option<u64> {
    (ns < u64::MAX as f64).then_some(ns as u64)
}
