//! The design effect of consecutive windows: if a process is noisy for several windows, they show
//! only one noisy time.
//!
//! The ranks of windows are modelled as a first-order autoregressive process. Its mean varies as
//! much as that of fewer independent numbers: Bartlett, "Some aspects of the time-correlation
//! problem", Journal of the Royal Statistical Society 98 (1935). The autocorrelation of a few
//! numbers is too small by (1 + 3 rho) / n: Kendall, "Note on bias in the estimation of
//! autocorrelation", Biometrika 41 (1954).

/// Largest autocorrelation. With a larger one, all windows are of one state.
const MOST: f64 = 0.95;

/// Returns the number of windows of two runs that count as one independent window: 1 or more. The
/// windows of each run are in the order of time.
pub(super) fn alike(first: &[f64], second: &[f64]) -> f64 {
    let ranks = ranks(first, second);
    let (first, second) = ranks.split_at(first.len());
    let (mut squares, mut products) = (0.0, 0.0);
    for run in [first, second] {
        let mean = run.iter().sum::<f64>() / run.len() as f64;
        let strays: Vec<f64> = run.iter().map(|rank| rank - mean).collect();
        squares += strays.iter().map(|it| it * it).sum::<f64>();
        products += strays.windows(2).map(|it| it[0] * it[1]).sum::<f64>();
    }
    if squares <= 0.0 {
        return 1.0;
    }
    let shorter = first.len().min(second.len()) as f64;
    let found = products / squares;
    let rho = ((found * shorter + 1.0) / (shorter - 3.0)).clamp(0.0, MOST);
    (1.0 + rho) / (1.0 - rho)
}

/// Returns the rank of each number among all; equal numbers share the mean of their ranks.
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
    use super::super::ranks::{holm, ranks};

    const TRIES: u64 = 2_000;
    const WINDOWS: usize = 20;
    /// Number of figures in one comparison.
    const FIGURES: usize = 5;
    const ALPHA: f64 = 0.01;

    /// Simulates the figures of one process, which is noisy or quiet for `dwell` windows on
    /// average.
    fn run(random: &mut fastrand::Rng, dwell: f64) -> [Vec<f64>; FIGURES] {
        let mut figures = [(); FIGURES].map(|()| Vec::new());
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

    /// Returns the number of pairs of runs, of 2,000, in which some figure is different.
    fn different(dwell: f64, factor: f64) -> u64 {
        let mut random = fastrand::Rng::with_seed(8);
        let tries = (0..TRIES).filter(|_| {
            let (first, second) = (run(&mut random, dwell), run(&mut random, dwell));
            let pairs = first.iter().zip(&second);
            let mut p: Vec<f64> = pairs
                .map(|(first, second)| {
                    let second: Vec<f64> = second.iter().map(|it| factor * it).collect();
                    ranks(first, &second).unwrap().p
                })
                .collect();
            holm(&mut p);
            p.iter().any(|p| *p < ALPHA)
        });
        tries.count() as u64
    }

    #[test]
    fn two_runs_of_one_process_hardly_ever_differ_however_long_it_is_noisy() {
        for dwell in [2.0, 3.0, 5.0, 10.0] {
            let different = different(dwell, 1.0);
            println!("dwell {dwell}: {different} of {TRIES}");
            // 2 % of 2,000 are 40, with a binomial deviation of sqrt(2,000 * 0.02 * 0.98) = 6.3;
            // the bound is three deviations above.
            assert!(different <= 59, "dwell {dwell}: {different}");
        }
    }

    /// The test still finds a difference: independent windows that are all higher.
    #[test]
    fn a_difference_of_independent_windows_is_found() {
        let found = different(2.0, 4.0);
        println!("{found} of {TRIES}");
        assert!(found > TRIES * 8 / 10, "{found}");
    }
}
