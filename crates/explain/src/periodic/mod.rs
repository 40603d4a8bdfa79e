//! Searches for a period in gaps that no probe explains: an event that recurs at a constant
//! interval for the whole run, by a clock of its own.
//!
//! 1. Candidates ([`lags`]): periods at which more distances between gaps occur than at
//!    neighbouring distances.
//! 2. Refinement ([`follow`]): the number of distances must also have a peak at 2, 3, 4, 8, 16, …
//!    periods, up to half the run. Each peak improves the estimate of the period. Chance, bursts
//!    and clocks that lose their phase have no such peaks.
//! 3. Proof ([`Phase`]): folded at the period, many gaps must lie at one phase. The null hypothesis
//!    is a uniform phase. Under this hypothesis, the number of distinct cycles hit is at most the
//!    number of gaps in a window of that width. For `k` hits where `m` are expected, Chernoff
//!    bounds the probability by `exp(-(k ln(k/m) - k + m))` (Mitzenmacher, Upfal, Probability and
//!    Computing, theorem 4.4, after Chernoff 1952). The bound must be below `exp(-40)`, about
//!    4e-18, while fewer than 1e9 periods, phases and windows are tried. Each eighth of the gaps
//!    must show the period too.
//!
//! Many random short gaps hide a few long periodic gaps, so the longer gaps are also searched
//! alone. After a period is found, its gaps are removed and the remaining gaps are searched again.
//!
//! The shortest period that passes is the fundamental. Multiples of this period come later in the
//! search, and at fractions of it the distances have no peak.

mod fold;
mod follow;
mod lags;

use fold::fold;
pub use fold::{CELLS, FoldCell};
use follow::{follow, median};

/// A period that was found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Period {
    pub(crate) period_ns: f64,
    pub(crate) jitter_ns: f64,
    /// Number of gaps that keep the period.
    pub(crate) gaps: u64,
    /// Total length of these gaps, in nanoseconds.
    pub(crate) total_ns: u64,
    /// All searched gaps, folded at the period.
    pub(crate) fold: Vec<FoldCell>,
}

/// Shortest period that is searched, in nanoseconds.
const SHORTEST_NS: f64 = 20e3;
/// Longest period that is searched, in nanoseconds.
const LONGEST_NS: f64 = 1e9;
/// Minimum number of gaps for a proof.
const FEWEST_GAPS: usize = 32;
/// Required evidence: natural logarithm of one over the probability of chance.
const PROOF_NATS: f64 = 40.0;
/// Required evidence in each eighth of the gaps.
const PROOF_NATS_EIGHTH: f64 = 4.6;
/// Minimum part of all cycles that a gap must hit.
const LEAST_OCCUPANCY: f64 = 0.1;

/// Maximum number of periods reported per CPU: the machine's tick, its hypervisor's, and one more.
const MOST_PERIODS: usize = 3;

/// Returns the periods of these gaps, the period with the most time first. The gaps are given by
/// start and length in nanoseconds. After each period, the remaining gaps are searched again.
pub(crate) fn find_all(gaps: &[(u64, u64)]) -> Vec<Period> {
    let mut rest = gaps.to_vec();
    rest.sort_unstable();
    let mut periods = Vec::new();
    while periods.len() < MOST_PERIODS
        && let Some(found) = strongest(&rest)
    {
        rest.retain(|gap| found.keeping.binary_search(gap).is_err());
        periods.push(Period {
            fold: fold(gaps, found.origin_ns, found.phase),
            ..found.period
        });
    }
    periods.sort_by_key(|period| std::cmp::Reverse(period.total_ns));
    periods
}

/// A period, with the gaps that keep it.
#[derive(Debug)]
struct Found {
    period: Period,
    /// Start of the first gap, from which the times in `phase` count, in nanoseconds.
    origin_ns: u64,
    phase: Phase,
    keeping: Vec<(u64, u64)>,
}

/// Returns the period with the most time. `gaps` are sorted by start. Searches all gaps, then their
/// longer half, then the longer half of these, and so on, because many random short gaps would hide
/// a few long periodic gaps.
fn strongest(gaps: &[(u64, u64)]) -> Option<Found> {
    let mut lengths: Vec<u64> = gaps.iter().map(|gap| gap.1).collect();
    lengths.sort_unstable();
    let mut found = Vec::new();
    let mut skipped = 0;
    while lengths.len() - skipped >= FEWEST_GAPS {
        let shortest_ns = lengths[skipped];
        let longer: Vec<(u64, u64)> = gaps
            .iter()
            .copied()
            .filter(|gap| gap.1 >= shortest_ns)
            .collect();
        found.extend(find(&longer));
        skipped += (lengths.len() - skipped) / 2;
    }
    found.into_iter().max_by_key(|found| found.period.total_ns)
}

/// Returns the first period that can be proven. `gaps` are sorted by start.
fn find(gaps: &[(u64, u64)]) -> Option<Found> {
    if gaps.len() < FEWEST_GAPS {
        return None;
    }
    let origin_ns = gaps[0].0;
    // Starts are relative to the first gap, because an f64 is exact for 104 days of nanoseconds.
    let starts: Vec<f64> = gaps.iter().map(|gap| (gap.0 - origin_ns) as f64).collect();
    lags::candidates(&starts)
        .into_iter()
        .filter_map(|candidate_ns| follow(&starts, candidate_ns))
        .filter(|found| (SHORTEST_NS..=LONGEST_NS).contains(&found.period_ns))
        .find_map(|found| prove(gaps, &starts, found.period_ns, found.jitter_ns))
}

/// Position in time of the cycles of a period.
#[derive(Debug, Clone, Copy)]
struct Phase {
    period_ns: f64,
    first_ns: f64,
    /// Maximum distance from the middle of a cycle for a gap that keeps the period, in nanoseconds.
    tolerance_ns: f64,
}

impl Phase {
    /// Returns the number of the nearest cycle, and the time from the middle of this cycle to
    /// `start_ns`.
    fn place(&self, start_ns: f64) -> (f64, f64) {
        let cycle = ((start_ns - self.first_ns) / self.period_ns).round();
        (cycle, start_ns - self.first_ns - cycle * self.period_ns)
    }

    fn holds(&self, start_ns: f64) -> bool {
        self.place(start_ns).1.abs() <= self.tolerance_ns
    }

    /// Returns the evidence that `starts` keep the period, in nats. The evidence is Chernoff's
    /// bound for the number of distinct cycles that `starts` hit.
    fn proof_nats(&self, starts: &[f64]) -> f64 {
        let mut cycles: Vec<f64> = starts
            .iter()
            .filter(|s| self.holds(**s))
            .map(|s| self.place(*s).0)
            .collect();
        cycles.dedup();
        let hits = cycles.len() as f64;
        let expected = starts.len() as f64 * 2.0 * self.tolerance_ns / self.period_ns;
        if hits <= expected {
            0.0
        } else {
            hits * (hits / expected).ln() - hits + expected
        }
    }
}

fn prove(gaps: &[(u64, u64)], starts: &[f64], period_ns: f64, jitter_ns: f64) -> Option<Found> {
    let phase = fit(starts, period_ns, jitter_ns)?;
    let eighth = starts
        .len()
        .div_ceil((starts.len() / FEWEST_GAPS).clamp(1, 8));
    let proved = phase.proof_nats(starts) >= PROOF_NATS
        && starts
            .chunks(eighth)
            .all(|part| part.len() < eighth / 2 || phase.proof_nats(part) >= PROOF_NATS_EIGHTH);
    if !proved {
        return None;
    }
    let keeping: Vec<usize> = (0..starts.len())
        .filter(|&i| phase.holds(starts[i]))
        .collect();
    let cycles: Vec<f64> = keeping.iter().map(|&i| phase.place(starts[i]).0).collect();
    let spanned = cycles.last()? - cycles.first()? + 1.0;
    let mut distinct = cycles;
    distinct.dedup();
    if (distinct.len() as f64) < LEAST_OCCUPANCY * spanned {
        return None;
    }
    let mut strays: Vec<f64> = keeping
        .iter()
        .map(|&i| phase.place(starts[i]).1.abs())
        .collect();
    let keeping: Vec<(u64, u64)> = keeping.into_iter().map(|i| gaps[i]).collect();
    let period = Period {
        period_ns: phase.period_ns,
        jitter_ns: 1.4826 * median(&mut strays),
        gaps: keeping.len() as u64,
        total_ns: keeping.iter().map(|gap| gap.1).sum(),
        fold: Vec::new(),
    };
    Some(Found {
        period,
        origin_ns: gaps[0].0,
        phase,
        keeping,
    })
}

/// Returns the position of the cycles. Finds the phase in the fullest of 64 overlapping windows.
/// Then fits period and phase by least squares to the gaps that keep the period.
fn fit(starts: &[f64], period_ns: f64, jitter_ns: f64) -> Option<Phase> {
    const WINDOWS: usize = 64;
    let mut counts = [0u32; WINDOWS];
    for start_ns in starts {
        let turn = (start_ns / period_ns).fract();
        counts[((turn * WINDOWS as f64) as usize).min(WINDOWS - 1)] += 1;
    }
    let pair = |window: &usize| counts[*window] + counts[(window + 1) % WINDOWS];
    let fullest = (0..WINDOWS).max_by_key(pair)?;
    let mut phase = Phase {
        period_ns,
        first_ns: (fullest + 1) as f64 / WINDOWS as f64 * period_ns,
        tolerance_ns: period_ns / 16.0,
    };
    let tolerance_ns = (4.0 * jitter_ns).clamp(period_ns / 128.0, period_ns / 16.0);
    for round in 0..3 {
        phase = regress(starts, phase)?;
        if round > 0 {
            phase.tolerance_ns = tolerance_ns;
        }
    }
    Some(phase)
}

fn regress(starts: &[f64], phase: Phase) -> Option<Phase> {
    let keeping = || {
        starts
            .iter()
            .filter(|s| phase.holds(**s))
            .map(|s| phase.place(*s))
    };
    let count = keeping().count() as f64;
    let mean_cycle = keeping().map(|(cycle, _)| cycle).sum::<f64>() / count;
    let mean_stray = keeping().map(|(_, stray)| stray).sum::<f64>() / count;
    let (mut products, mut squares) = (0.0, 0.0);
    for (cycle, stray) in keeping() {
        products += (cycle - mean_cycle) * (stray - mean_stray);
        squares += (cycle - mean_cycle) * (cycle - mean_cycle);
    }
    (squares > 0.0).then(|| {
        let slope = products / squares;
        Phase {
            period_ns: phase.period_ns + slope,
            first_ns: phase.first_ns + mean_stray - slope * mean_cycle,
            ..phase
        }
    })
}

#[cfg(test)]
mod tests;
