//! Refines a candidate period by the distances between gaps, over ever more periods.

/// A period that the distances between gaps keep over up to half the run, with its jitter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Followed {
    pub(super) period_ns: f64,
    pub(super) jitter_ns: f64,
}

/// Peak in the number of distances between gaps, near an expected distance.
struct Peak {
    /// Position of the peak relative to the expected distance, in nanoseconds.
    offset_ns: f64,
    /// Standard deviation of the distances in the peak, in nanoseconds.
    spread_ns: f64,
    /// Excess of the peak over its surroundings, in standard deviations of a Poisson count.
    sigma: f64,
}

/// Minimum excess of the peaks at 1, 2 and 3 periods. From 4 periods on, [`LEAST_SIGMA_FAR`] is
/// enough, because a longer distance leaves fewer pairs.
const LEAST_SIGMA: f64 = 4.0;
const LEAST_SIGMA_FAR: f64 = 3.0;

/// Maximum number of pairs that are compared for one peak. More pairs would cost time and add
/// little.
const MOST_PAIRS: f64 = 1e6;

/// Returns the refined period, or `None` if the distances between `starts` do not keep this period.
/// `starts` are sorted.
pub(super) fn follow(starts: &[f64], candidate_ns: f64) -> Option<Followed> {
    let span_ns = starts.last()? - starts.first()?;
    let mut period_ns = candidate_ns;
    let mut tolerance_ns = period_ns / 8.0;
    let mut spread_ns = tolerance_ns;
    let steps = [1.0, 1.0, 2.0, 3.0]
        .into_iter()
        .chain((2..).map(|n| f64::from(n).exp2()));
    for cycles in steps.take_while(|cycles| cycles * candidate_ns <= span_ns / 2.0) {
        let peak = peak(starts, cycles * period_ns, tolerance_ns)?;
        let least = if cycles > 3.0 {
            LEAST_SIGMA_FAR
        } else {
            LEAST_SIGMA
        };
        if peak.sigma < least {
            return None;
        }
        period_ns += peak.offset_ns / cycles;
        spread_ns = peak.spread_ns;
        tolerance_ns = (6.0 * spread_ns).clamp(candidate_ns / 64.0, tolerance_ns);
    }
    // Both ends of a distance have jitter.
    Some(Followed {
        period_ns,
        jitter_ns: spread_ns / f64::sqrt(2.0),
    })
}

/// Returns the peak in the distances between `starts` within `expected_ns ± tolerance_ns`. Compares
/// the number of distances in the inner half of this range with the number in the outer half, which
/// occur by chance.
fn peak(starts: &[f64], expected_ns: f64, tolerance_ns: f64) -> Option<Peak> {
    let half_ns = tolerance_ns / 2.0;
    let (mut inner, mut outer, mut sum, mut squares) = (0.0, 0.0, 0.0, 0.0);
    let mut first = 0;
    for start_ns in starts {
        if inner + outer > MOST_PAIRS {
            break;
        }
        let from_ns = start_ns + expected_ns - tolerance_ns;
        while starts
            .get(first)
            .is_some_and(|later_ns| *later_ns < from_ns)
        {
            first += 1;
        }
        for later_ns in &starts[first..] {
            let off_ns = later_ns - start_ns - expected_ns;
            if off_ns > tolerance_ns {
                break;
            }
            if off_ns.abs() > half_ns {
                outer += 1.0;
            } else {
                inner += 1.0;
                sum += off_ns;
                squares += off_ns * off_ns;
            }
        }
    }
    let excess = inner - outer;
    (excess >= 1.0).then(|| {
        let offset_ns = (sum / excess).clamp(-half_ns, half_ns);
        let by_chance = outer * half_ns * half_ns / 3.0;
        let variance = (squares - by_chance) / excess - offset_ns * offset_ns;
        Peak {
            offset_ns,
            spread_ns: variance.max(0.0).sqrt(),
            sigma: excess / f64::sqrt(inner + outer),
        }
    })
}

/// Returns the median; 0 for an empty slice. Reorders `values`.
pub(super) fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    if values.is_empty() {
        return 0.0;
    }
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}
