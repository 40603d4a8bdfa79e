//! Limits that say more than a run has seen: percentiles, and how many gaps a second are longer than some length.

use vmnoise_events::coverage::{BlindSpot, Hidden, Hides, Question};

use super::budget::Requirement;
use super::evidence::Evidence;
use super::judge::{Found, blind};
use super::odds::{Decision, LONGEST_NS, Odds};
use super::reason::Reason;

/// Microseconds of a second.
const MICROSECONDS: f64 = 1e6;

pub(super) fn percentile(
    requirement: &Requirement,
    place: usize,
    evidence: &Evidence,
    risk: f64,
) -> Found {
    let part = requirement.quantity.part_above().unwrap_or(0.0);
    let whole = &evidence.sample.whole;
    let [length_ns] = whole.lengths.at_quantiles([1.0 - part]);
    let count = evidence.count();
    let edge = length_ns.min(whole.max_gap_ns) as f64;
    // A length is known to three digits, and how many are above the limit exactly.
    let value = match whole.above[place] as f64 <= part * count as f64 {
        true => edge.min(requirement.at_most),
        false => edge,
    };
    let spots = evidence
        .coverage()
        .blind_spots(Question::Often(requirement.at_most));
    // Those that were lost are counted as if each were above.
    let (lost, hidden): (Vec<_>, Vec<_>) = spots
        .into_iter()
        .partition(|it| it.hides() == Hides::StatedCount);
    // Values that are missing below the limit make all others look more frequent than they are.
    let is_cut = |it: &BlindSpot| matches!(it.hidden(), Hidden::Threshold { .. });
    if hidden.iter().any(is_cut) {
        return Found::open(Some(value), blind(hidden));
    }
    if count == 0 {
        return Found::open(None, [vec![Reason::NoValues], blind(hidden)].concat());
    }
    let limit_ns = requirement.at_most as u64;
    let Some(odds) = evidence.odds(place, limit_ns, part, risk) else {
        let short = vec![Reason::TooShortToCut];
        return Found::open(Some(value), [short, blind(hidden)].concat());
    };
    let needed = odds.count_to_ask_for(part).ceil();
    match odds.decide(part) {
        Decision::Kept => kept(value, limit_ns, &odds, hidden),
        Decision::Broken => Found::broken(value),
        Decision::Open => {
            // A float that is too large for a u64 becomes the largest.
            let needed = (needed < u64::MAX as f64).then_some((needed as u64).max(count));
            let few = vec![Reason::TooFew { count, needed }];
            Found::open(Some(value), [few, blind(lost), blind(hidden)].concat())
        }
        Decision::Unmet => {
            let of_ns = evidence.length_ns as f64 / count as f64;
            let unmet = vec![unmet(limit_ns, &odds, needed * of_ns)];
            Found::open(Some(value), [unmet, blind(lost), blind(hidden)].concat())
        }
    }
}

/// How many gaps a second are longer than so much.
pub(super) fn rate(
    requirement: &Requirement,
    place: usize,
    limit_ns: u64,
    evidence: &Evidence,
    risk: f64,
) -> Found {
    let whole = &evidence.sample.whole;
    let spots = evidence
        .coverage()
        .blind_spots(Question::Often(limit_ns as f64));
    let (lost, hidden): (Vec<_>, Vec<_>) = spots
        .into_iter()
        .partition(|it| it.hides() == Hides::StatedCount);
    if whole.runtime_ns == 0 {
        return Found::open(None, [vec![Reason::NoRuntime], blind(hidden)].concat());
    }
    let value = whole.above[place] as f64 * 1e9 / whole.runtime_ns as f64;
    let part = requirement.at_most / MICROSECONDS;
    let odds = (part < 1.0).then(|| evidence.odds_of_rate(place, limit_ns, requirement.at_most, risk));
    let Some(odds) = odds.flatten() else {
        let short = vec![Reason::TooShortToCut];
        return Found::open(Some(value), [short, blind(hidden)].concat());
    };
    // No length of time shows that there is none.
    let needed_ns = match part > 0.0 {
        true => {
            let times = odds.count_to_ask_for(part) * 1e3 / whole.runtime_ns as f64;
            times * evidence.length_ns as f64
        }
        false => f64::INFINITY,
    };
    match odds.decide(part) {
        Decision::Kept => kept(value, limit_ns, &odds, hidden),
        Decision::Broken => Found::broken(value),
        Decision::Open => {
            let short = Reason::TooShort {
                needed_ns: nanoseconds(needed_ns),
            };
            Found::open(Some(value), [vec![short], blind(lost), blind(hidden)].concat())
        }
        Decision::Unmet => {
            let unmet = vec![unmet(limit_ns, &odds, needed_ns)];
            Found::open(Some(value), [unmet, blind(lost), blind(hidden)].concat())
        }
    }
}

/// Kept, and what that assumes.
fn kept(value: f64, above_ns: u64, odds: &Odds, hidden: Vec<BlindSpot>) -> Found {
    let mut found = Found::kept_but_for(value, hidden);
    let burst_ns = (!odds.has_met_bursts()).then_some(LONGEST_NS);
    found.reasons.push(Reason::Assuming { above_ns, burst_ns });
    found
}

fn unmet(above_ns: u64, odds: &Odds, needed_ns: f64) -> Reason {
    Reason::Unmet {
        above_ns,
        windows: odds.windows_met(),
        needed_ns: nanoseconds(needed_ns),
    }
}

/// `None` of more than a u64 holds.
fn nanoseconds(ns: f64) -> Option<u64> {
    (ns < u64::MAX as f64).then_some(ns as u64)
}
