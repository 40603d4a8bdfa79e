//! The design effect of consecutive windows. If a process is noisy during several windows, they
//! show only one noisy time.
//!
//! The model is a first-order autoregressive process. The mean of n windows varies as much as that
//! of fewer independent windows: Bartlett, "Some aspects of the time-correlation problem", Journal
//! of the Royal Statistical Society 98 (1935). The autocorrelation of n windows is estimated too
//! small by (1 + 3 rho) / n: Kendall, "Note on bias in the estimation of autocorrelation",
//! Biometrika 41 (1954).
//!
//! The autocorrelation is computed from ranks and from values, and the larger result is used. Ranks
//! alone miss a run that is noisy only once: the order of the quiet windows hides it. Values alone
//! miss all other windows if one value is huge. All figures come from the same windows. So each
//! figure gets at least the autocorrelation that a quarter of all figures exceeds.

/// Largest autocorrelation that is used. With a larger one, all windows would be in one state.
const MOST: f64 = 0.95;

/// Returns the autocorrelation of the windows of two runs, 0 to [`MOST`]. The values of each run
/// are one per window, in the order of time.
pub(super) fn autocorrelation(first: &[f64], second: &[f64]) -> f64 {
    // Windows whose values differ only by rounding are equal.
    let rounded =
        |run: &[f64]| -> Vec<f64> { run.iter().map(|it| f64::from(*it as f32)).collect() };
    let (first, second) = (&rounded(first)[..], &rounded(second)[..]);
    let ranks = ranks(first, second);
    let by_ranks = of_runs(ranks.split_at(first.len()));
    by_ranks.max(of_runs((first, second)))
}

/// Returns the autocorrelation that a quarter of all figures exceeds; 0 without figures.
pub(super) fn common(mut autocorrelations: Vec<f64>) -> f64 {
    autocorrelations.sort_unstable_by(f64::total_cmp);
    let place = (0.75 * autocorrelations.len().saturating_sub(1) as f64).round() as usize;
    autocorrelations.get(place).copied().unwrap_or(0.0)
}

/// Returns the number of windows that are equivalent to one independent window, at this
/// autocorrelation. The result is at least 1.
pub(super) fn alike(autocorrelation: f64) -> f64 {
    (1.0 + autocorrelation) / (1.0 - autocorrelation)
}

fn of_runs(runs: (&[f64], &[f64])) -> f64 {
    let (mut squares, mut products) = (0.0, 0.0);
    for run in [runs.0, runs.1] {
        let mean = run.iter().sum::<f64>() / run.len() as f64;
        let strays: Vec<f64> = run.iter().map(|it| it - mean).collect();
        squares += strays.iter().map(|it| it * it).sum::<f64>();
        products += strays.windows(2).map(|it| it[0] * it[1]).sum::<f64>();
    }
    // The windows of each run are all equal.
    if squares <= 0.0 {
        return 0.0;
    }
    let shorter = runs.0.len().min(runs.1.len()) as f64;
    let found = products / squares;
    ((found * shorter + 1.0) / (shorter - 3.0)).clamp(0.0, MOST)
}

/// Returns the rank of each number among all numbers. Equal numbers get the mean of their ranks.
fn ranks(first: &[f64], second: &[f64]) -> Vec<f64> {
    let all = [first, second].concat();
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_unstable_by(|a, b| all[*a].total_cmp(&all[*b]));
    let mut ranks = vec![0.0; all.len()];
    let mut before = 0;
    for tied in order.chunk_by(|a, b| all[*a] == all[*b]) {
        for place in tied {
            ranks[*place] = before as f64 + (tied.len() - 1) as f64 / 2.0;
        }
        before += tied.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::super::ranks::{Ranks, holm, p_of_all, ranks};
    use super::super::verdict::ALPHA;

    const TRIES: u32 = 2_000;
    const WINDOWS: usize = 20;
    /// Number of figures of a process. Two runs of osnoise with all probes have about as many.
    const MOST_FIGURES: usize = 14;
    /// Numbers of figures in one comparison. A comparison has the first figures of its process.
    const FIGURES: [usize; 3] = [1, 5, MOST_FIGURES];

    /// Simulates the figures of a process that switches between noisy and quiet. Each state lasts
    /// `dwell` windows on average.
    fn run(random: &mut fastrand::Rng, dwell: f64) -> [Vec<f64>; MOST_FIGURES] {
        let mut figures = [(); MOST_FIGURES].map(|()| Vec::new());
        let mut is_noisy = random.bool();
        for _ in 0..WINDOWS {
            for figure in &mut figures {
                let level = if is_noisy { 3.0 } else { 1.0 };
                figure.push(level * (0.9 + 0.2 * random.f64()));
            }
            is_noisy ^= random.f64() * dwell < 1.0;
        }
        figures
    }

    /// Ranks the figures of two runs of one process. All values of the second run are multiplied by
    /// `factor`.
    fn pair(random: &mut fastrand::Rng, dwell: f64, factor: f64) -> Vec<Ranks> {
        let (first, second) = (run(random, dwell), run(random, dwell));
        let pairs = first.iter().zip(&second).map(|(first, second)| {
            let second: Vec<f64> = second.iter().map(|it| factor * it).collect();
            ranks(first, &second).unwrap()
        });
        pairs.collect()
    }

    fn is_any_different(figures: &[Ranks]) -> bool {
        let mut p = p_of_all(figures);
        holm(&mut p);
        p.iter().any(|p| *p < ALPHA)
    }

    /// Compares this number of pairs of runs. Returns the number of pairs in which at least one
    /// figure is called different, for each number in [`FIGURES`].
    fn different(tries: u32, dwell: f64, factor: f64) -> [u32; 3] {
        let mut random = fastrand::Rng::with_seed(8);
        let mut different = [0; 3];
        for _ in 0..tries {
            let ranks = pair(&mut random, dwell, factor);
            for (count, figures) in different.iter_mut().zip(FIGURES) {
                *count += u32::from(is_any_different(&ranks[..figures]));
            }
        }
        different
    }

    #[test]
    fn the_common_autocorrelation_is_the_upper_quartile() {
        assert_eq!(super::common(Vec::new()), 0.0);
        assert_eq!(super::common(vec![0.5]), 0.5);
        assert_eq!(super::common(vec![0.4, 0.1, 0.3, 0.2, 0.0]), 0.3);
    }

    #[test]
    fn two_runs_of_one_process_hardly_ever_differ_however_long_it_is_noisy() {
        for dwell in [2.0, 5.0, 10.0] {
            let different = different(TRIES, dwell, 1.0);
            println!("dwell {dwell}: {different:?} of {TRIES} for {FIGURES:?} figures");
            // 2 % of 2,000 pairs are 40, with a binomial standard deviation of sqrt(2,000 * 0.02 *
            // 0.98) = 6.3. The bound is three standard deviations above 40. At a dwell of 10, no
            // level avoids 18 of the 40: in 0.9^19 = 13.5 % of all runs the state never changes,
            // and 0.135^2 / 2 = 0.9 % of all pairs are two such runs with different states.
            let is_rare = different.iter().all(|it| *it <= 59);
            assert!(is_rare, "dwell {dwell}: {different:?}");
        }
    }

    /// The test still finds that all values of the second run are higher if the windows are
    /// independent. U is then 5.4 standard deviations from its mean. After Holm's correction for 14
    /// figures, p is below `ALPHA` if the estimated autocorrelation is below 0.24. The estimate has
    /// a standard deviation of 20 / 17 / sqrt(40) = 0.19, so nine of ten estimates are below 0.24.
    /// The largest of several estimates is used, so the test requires only three of four.
    #[test]
    fn a_difference_of_independent_windows_is_found() {
        const PAIRS: u32 = 500;
        let found = different(PAIRS, 2.0, 4.0);
        println!("{found:?} of {PAIRS} for {FIGURES:?} figures");
        let is_usual = found.iter().all(|it| *it > PAIRS * 3 / 4);
        assert!(is_usual, "{found:?}");
    }
}
