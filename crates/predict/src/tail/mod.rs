//! Extrapolates the longest value of more values than were recorded. It fits a tail to the largest
//! values, and a test may reject the fit. [`judge_largest`] decides from such fits whether the
//! values have a variance.
//!
//! Sources:
//!
//! - The generalized Pareto distribution for values above a threshold: Pickands, "Statistical
//!   inference using extreme order statistics", Annals of Statistics 3 (1975).
//! - The fit by the likelihood, which has hardly any bias for any shape: Zhang and Stephens, "A new
//!   and efficient estimation method for the generalized Pareto distribution", Technometrics 51
//!   (2009).
//! - The test with the statistic of Anderson and Darling, which rejects a fit if p is below 10 %:
//!   Choulakian and Stephens, "Goodness-of-fit tests for the generalized Pareto distribution",
//!   Technometrics 43 (2001). The distribution of the statistic comes from samples of the fit,
//!   which are fitted again.

/// Minimum number of peaks. To fewer peaks, any tail would fit.
const LEAST_PEAKS: usize = 50;
/// Maximum number of peaks. With this number, the error of the shape is about a tenth. More peaks
/// would include values that do not belong to the tail.
const MOST_PEAKS: usize = 200;
/// Number of the largest values that a fit needs: the peaks, and the value below the peaks.
pub const LARGEST: usize = MOST_PEAKS + 1;
/// One value in this number of values is a peak.
const ONE_IN: u64 = 10;
/// Number of samples that the test of a fit draws.
const DRAWS: usize = 199;
/// Smallest p at which the fit is accepted. Nine of ten correct fits reach it.
const LEAST_P: f64 = 0.1;
/// Smallest shape at which the distribution has no variance. Then values that were not recorded
/// decide the longest of more values.
const HEAVY_SHAPE: f64 = 0.5;
/// Smallest p at which a tail with [`HEAVY_SHAPE`] or more counts as possible.
const LEAST_P_OF_HEAVY: f64 = 0.01;
/// Shape of values that exceed x with a probability in proportion to x^-1.3. A light fit must
/// exclude this shape.
const EXCLUDED_SHAPE: f64 = 1.0 / 1.3;
/// Number of standard errors by which a light fit is below [`EXCLUDED_SHAPE`]. One fit in 60 of
/// values with that shape is this far below. With [`MOST_PEAKS`], the limit is [`HEAVY_SHAPE`].
const EXCLUDED_BY_ERRORS: f64 = 2.15;
/// Number of values, including the largest, that must be alike to show that the tail is light.
///
/// Suppose that values exceed x with a probability in proportion to x^-a. Then k other values reach
/// the part c of the largest value with the probability (1 - c^a)^k. With the shape 0.5, a is 2.
/// For c = 0.9 and k = 3, the probability is 0.7 %.
const LEAST_ALIKE: usize = 4;
/// Part of the largest value that a value must reach to be like it.
const ALIKE_PART: f64 = 0.9;
/// Euler's constant: the mean of the standard Gumbel distribution.
const EULER: f64 = 0.577_215_664_901_532_9;

/// Weight of a tail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TailWeight {
    /// The distribution has a variance.
    Light,
    /// The distribution may have no variance. Then no number of values gives a reliable mean.
    Heavy,
    /// The values do not show whether the distribution has a variance.
    Unknown,
}

/// Judges the tail of values of which only the largest are given. The arguments are those of
/// [`Tail::fit_largest`]. Also returns the last fit; `None` if the values needed no fit, or were
/// too few for one.
///
/// Without a value above 0, or if the largest values are alike, the tail is light. If the fit to
/// the usual number of peaks gives no answer, fewer peaks are fitted. They contain fewer values
/// that do not belong to the tail.
pub fn judge_largest(values: u64, largest_ns: &[u64]) -> (TailWeight, Option<Tail>) {
    let ascending_ns = ascending(largest_ns);
    if ascending_ns.is_empty() || are_alike(&ascending_ns) {
        return (TailWeight::Light, None);
    }
    let mut tail = None;
    for peaks in [most_peaks(values), LEAST_PEAKS] {
        tail = Tail::fit_peaks(values, &ascending_ns, peaks).or(tail);
        let weight = tail.as_ref().map_or(TailWeight::Unknown, Tail::weight);
        if weight != TailWeight::Unknown {
            return (weight, tail);
        }
    }
    (TailWeight::Unknown, tail)
}

/// Returns the values above 0 in ascending order. A value of 0 is neither a peak nor a threshold.
fn ascending(values_ns: &[u64]) -> Vec<u64> {
    let above = values_ns.iter().copied().filter(|ns| *ns > 0);
    let mut ascending_ns: Vec<u64> = above.collect();
    ascending_ns.sort_unstable();
    ascending_ns
}

/// Returns whether the largest of these ascending values are alike. Then the tail has an end, and
/// the values show it.
fn are_alike(ascending_ns: &[u64]) -> bool {
    let place = ascending_ns.len().checked_sub(LEAST_ALIKE);
    let ends_ns = place.map(|it| ascending_ns[it]).zip(ascending_ns.last());
    ends_ns.is_some_and(|(least_ns, most_ns)| least_ns as f64 >= ALIKE_PART * *most_ns as f64)
}

/// Returns the maximum number of peaks for this number of values.
fn most_peaks(values: u64) -> usize {
    let tenth = usize::try_from(values / ONE_IN).unwrap_or(usize::MAX);
    tenth.clamp(LEAST_PEAKS, MOST_PEAKS)
}

/// Tail of a distribution, fitted to independent values. Results for values above the recorded
/// values are an extrapolation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tail {
    /// Threshold in nanoseconds. Values above the threshold are peaks.
    pub threshold_ns: f64,
    /// Shape of the distribution. With a negative shape, the tail has a largest value. From 0.5 on
    /// the distribution has no variance, from 1 on no mean.
    pub shape: f64,
    /// Scale of the distribution, in nanoseconds.
    pub scale_ns: f64,
    /// Number of all values, not only of the peaks.
    pub values: u64,
    /// Number of values above the threshold.
    pub peaks: usize,
    p: f64,
}

impl Tail {
    /// Fits a tail to the largest tenth of these values, but to at least 50 and at most 200 values.
    /// Returns `None` if there are fewer values, or too many are equal.
    pub fn fit(values_ns: &[u64]) -> Option<Tail> {
        Tail::fit_largest(values_ns.len() as u64, values_ns)
    }

    /// Fits a tail like [`Tail::fit`] to values of which only the largest are given. `values` is
    /// the number of all values. `largest_ns` has at least the [`LARGEST`] largest values, in
    /// nanoseconds.
    pub fn fit_largest(values: u64, largest_ns: &[u64]) -> Option<Tail> {
        Tail::fit_peaks(values, &ascending(largest_ns), most_peaks(values))
    }

    /// Fits a tail to the largest of these ascending values, at most `peaks` of them. `values` is
    /// the number of all values.
    fn fit_peaks(values: u64, ascending_ns: &[u64], peaks: usize) -> Option<Tail> {
        let below = ascending_ns.len().checked_sub(1)?.saturating_sub(peaks);
        let threshold_ns = ascending_ns[below];
        let above = ascending_ns.iter().filter(|ns| **ns > threshold_ns);
        let excesses: Vec<f64> = above.map(|ns| (ns - threshold_ns) as f64).collect();
        if excesses.len() < LEAST_PEAKS {
            return None;
        }
        let pareto = Pareto::fit(&excesses)?;
        Some(Tail {
            threshold_ns: threshold_ns as f64,
            shape: pareto.shape,
            scale_ns: pareto.scale,
            values,
            peaks: excesses.len(),
            p: pareto.p_value(&excesses),
        })
    }

    /// Returns the probability that random peaks of this distribution fit worse than the recorded
    /// peaks.
    pub fn p_value(&self) -> f64 {
        self.p
    }

    /// Returns whether the test accepts the fit. If not, nothing may be extrapolated.
    pub fn fits(&self) -> bool {
        self.p >= LEAST_P
    }

    /// Returns whether the distribution may have no variance. Then no number of values gives a
    /// reliable mean.
    pub fn is_heavy(&self) -> bool {
        self.shape >= HEAVY_SHAPE && self.p >= LEAST_P_OF_HEAVY
    }

    /// Returns whether the distribution has a variance. A light fit must be accepted, and its shape
    /// must be below a limit. The error of the shape grows as the number of peaks falls, so the
    /// limit falls, too.
    pub fn weight(&self) -> TailWeight {
        let error = (1.0 + EXCLUDED_SHAPE) / (self.peaks as f64).sqrt();
        let limit = HEAVY_SHAPE.min(EXCLUDED_SHAPE - EXCLUDED_BY_ERRORS * error);
        match self.is_heavy() {
            true => TailWeight::Heavy,
            false if self.fits() && self.shape < limit => TailWeight::Light,
            false => TailWeight::Unknown,
        }
    }

    /// Returns the value, in nanoseconds, that a fraction `p` of all values does not exceed; `None`
    /// if the value is below the threshold.
    pub fn quantile_ns(&self, p: f64) -> Option<f64> {
        let above = (1.0 - p) / self.fraction_of_peaks();
        (above <= 1.0).then(|| self.threshold_ns + self.pareto().exceeded_by(above))
    }

    /// Returns the expected largest of `values` values, in nanoseconds. Returns `None` if `values`
    /// is less than the number of recorded values, or if the shape is 0.5 or more.
    pub fn expected_max_ns(&self, values: f64) -> Option<f64> {
        if values < self.values as f64 || self.shape >= HEAVY_SHAPE {
            return None;
        }
        // The number of peaks among many values has a Poisson distribution, and is practically
        // never 0.
        let peaks = values * self.fraction_of_peaks();
        let Pareto { shape, scale } = self.pareto();
        let excess_ns = if shape.abs() < 1e-6 {
            scale * (peaks.ln() + EULER)
        } else {
            scale / shape * (peaks.powf(shape) * libm::tgamma(1.0 - shape) - 1.0)
        };
        Some(self.threshold_ns + excess_ns)
    }

    fn fraction_of_peaks(&self) -> f64 {
        self.peaks as f64 / self.values as f64
    }

    fn pareto(&self) -> Pareto {
        Pareto {
            shape: self.shape,
            scale: self.scale_ns,
        }
    }
}

/// Generalized Pareto distribution.
#[derive(Debug, Clone, Copy)]
struct Pareto {
    shape: f64,
    scale: f64,
}

impl Pareto {
    /// Fits a distribution to ascending values, with the method of Zhang and Stephens. It computes
    /// the mean of several candidates for -shape / scale, each weighted by its likelihood.
    fn fit(excesses: &[f64]) -> Option<Pareto> {
        let count = excesses.len() as f64;
        let weighed = candidates(excesses)?.into_iter().map(|candidate| {
            let shape = shape_by(candidate, excesses);
            let log_likelihood = count * ((-candidate / shape).ln() - shape - 1.0);
            (candidate, log_likelihood)
        });
        let weighed: Vec<(f64, f64)> = weighed.filter(|it| it.1.is_finite()).collect();
        let best = weighed.iter().map(|it| it.1).fold(f64::MIN, f64::max);
        let (mut sum, mut all) = (0.0, 0.0);
        for (candidate, log_likelihood) in weighed {
            let weight = (log_likelihood - best).exp();
            sum += candidate * weight;
            all += weight;
        }
        let candidate = sum / all;
        let shape = shape_by(candidate, excesses);
        let scale = -shape / candidate;
        (scale.is_finite() && scale > 0.0).then_some(Pareto { shape, scale })
    }

    /// Returns this number of random values of the distribution, ascending.
    fn drawn(&self, count: usize, random: &mut fastrand::Rng) -> Vec<f64> {
        // The argument is above 0 and at most 1.
        let drawn = (0..count).map(|_| self.exceeded_by(1.0 - random.f64()));
        let mut drawn: Vec<f64> = drawn.collect();
        drawn.sort_unstable_by(f64::total_cmp);
        drawn
    }

    /// Returns the fraction of values above this excess; 0 above the largest value of the
    /// distribution.
    fn above(&self, excess: f64) -> f64 {
        if self.shape.abs() < 1e-9 {
            return (-excess / self.scale).exp();
        }
        let base = 1.0 + self.shape * excess / self.scale;
        if base <= 0.0 {
            return 0.0;
        }
        base.powf(-1.0 / self.shape)
    }

    /// Returns the excess that this fraction of values exceeds.
    fn exceeded_by(&self, fraction: f64) -> f64 {
        if self.shape.abs() < 1e-9 {
            return -self.scale * fraction.ln();
        }
        self.scale / self.shape * (fraction.powf(-self.shape) - 1.0)
    }

    /// Returns the statistic of Anderson and Darling for ascending values.
    fn distance(&self, excesses: &[f64]) -> f64 {
        let count = excesses.len() as f64;
        let pairs = excesses.iter().zip(excesses.iter().rev()).enumerate();
        let sum: f64 = pairs
            .map(|(place, (excess, mirrored))| {
                let below = 1.0 - self.above(*excess);
                let weight = 2.0 * place as f64 + 1.0;
                weight * (below.ln() + self.above(*mirrored).ln())
            })
            .sum();
        -count - sum / count
    }

    /// Returns the probability that random values of this distribution have a larger distance to
    /// their own fit than `excesses` have to this distribution.
    fn p_value(&self, excesses: &[f64]) -> f64 {
        let distance = self.distance(excesses);
        // A fixed seed makes the result reproducible.
        let mut random = fastrand::Rng::with_seed(0);
        let mut further = 0;
        for _ in 0..DRAWS {
            let drawn = self.drawn(excesses.len(), &mut random);
            let is_further = Pareto::fit(&drawn).is_none_or(|fit| fit.distance(&drawn) >= distance);
            further += usize::from(is_further);
        }
        (1 + further) as f64 / (1 + DRAWS) as f64
    }
}

/// Returns candidates for -shape / scale of ascending values; `None` without values. All candidates
/// are below 1 / largest value, so each of these tails contains all values.
fn candidates(excesses: &[f64]) -> Option<Vec<f64>> {
    let count = excesses.len() as f64;
    let largest = *excesses.last()?;
    // The first quartile is an estimate of the scale.
    let quartile = excesses[((count / 4.0 + 0.5) as usize).saturating_sub(1)];
    let number = 20 + count.sqrt() as usize;
    let candidates = (1..=number).map(|nth| {
        let part = number as f64 / (nth as f64 - 0.5);
        1.0 / largest + (1.0 - part.sqrt()) / (3.0 * quartile)
    });
    Some(candidates.collect())
}

/// Returns the most likely shape for this value of -shape / scale.
fn shape_by(candidate: f64, excesses: &[f64]) -> f64 {
    let logs = excesses.iter().map(|it| (-candidate * it).ln_1p());
    logs.sum::<f64>() / excesses.len() as f64
}

#[cfg(test)]
mod tests;
