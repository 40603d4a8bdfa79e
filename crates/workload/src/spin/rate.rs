//! Speed of a CPU while a thread runs on it: the number of iterations of a polling loop per time.
//!
//! An iteration reads the TSC, which takes a fixed number of the core's own cycles. So there are
//! fewer iterations at a lower frequency, or if the core's sibling is busy. Memory and caches have
//! no influence. Gaps are left out, because they do not belong to the speed.

use crate::{thread, tsc};

/// One window of polled time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateWindow {
    /// Number of iterations in the window, without those that found a gap.
    pub steps: u64,
    /// Total time of these iterations, in TSC cycles.
    pub polled_tsc: u64,
}

/// Settings of a measurement of the speed.
#[derive(Debug, Clone, Copy)]
pub struct RateConfig {
    /// Number of windows to measure.
    pub windows: usize,
    /// Duration of a window, in TSC cycles.
    pub window_tsc: u64,
    /// Minimum duration of an iteration that counts as a gap, in TSC cycles.
    pub threshold_tsc: u64,
}

/// Polls on `cpu` in a thread that is pinned there. Returns the number of iterations in each
/// window.
///
/// # Errors
/// The same errors as [`thread::pin`].
pub fn rate(cpu: u32, config: &RateConfig) -> Result<Vec<RateWindow>, thread::Error> {
    thread::on(cpu, || Ok(windows(config, tsc::now)))
}

fn windows(config: &RateConfig, mut now: impl FnMut() -> u64) -> Vec<RateWindow> {
    let mut windows = Vec::with_capacity(config.windows);
    let mut last_tsc = now();
    for _ in 0..config.windows {
        let end_tsc = last_tsc.saturating_add(config.window_tsc);
        let (mut steps, mut polled_tsc) = (0, 0);
        while last_tsc < end_tsc {
            let now_tsc = now();
            // If the clock went back, the subtraction wraps around, so the iteration counts as a
            // gap.
            let step_tsc = now_tsc.wrapping_sub(last_tsc);
            if step_tsc < config.threshold_tsc {
                steps += 1;
                polled_tsc += step_tsc;
            }
            last_tsc = now_tsc;
        }
        windows.push(RateWindow { steps, polled_tsc });
    }
    windows
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: RateConfig = RateConfig {
        windows: 3,
        window_tsc: 1_000,
        threshold_tsc: 100,
    };

    /// Returns a clock that advances by the next value of `steps` at each reading.
    fn of_steps(steps: impl IntoIterator<Item = u64>) -> impl FnMut() -> u64 {
        let mut tsc = 7;
        let mut steps = steps.into_iter();
        move || {
            tsc += steps.next().unwrap();
            tsc
        }
    }

    fn shown(windows: &[RateWindow]) -> Vec<(u64, u64)> {
        windows.iter().map(|it| (it.steps, it.polled_tsc)).collect()
    }

    #[test]
    fn each_window_has_its_own_steps() {
        let slow = std::iter::repeat_n(20, 50);
        let fast = std::iter::repeat_n(10, 100);
        // The first reading is the begin of the first window.
        let steps = std::iter::once(0)
            .chain(fast.clone())
            .chain(slow)
            .chain(fast);
        let windows = windows(&CONFIG, of_steps(steps));
        assert_eq!(shown(&windows), [(100, 1_000), (50, 1_000), (100, 1_000)]);
    }

    #[test]
    fn a_gap_is_no_part_of_the_rate() {
        let steady = |count| std::iter::repeat_n(10, count);
        let steps = std::iter::once(0)
            .chain(steady(30))
            .chain([500])
            .chain(steady(20))
            // This iteration is longer than the rest of its window.
            .chain(steady(40))
            .chain([9_000])
            .chain(steady(100));
        let windows = windows(&CONFIG, of_steps(steps));
        assert_eq!(shown(&windows), [(50, 500), (40, 400), (100, 1_000)]);
    }

    #[test]
    fn a_cpu_is_polled_for_as_long_as_was_asked() {
        let config = RateConfig {
            windows: 5,
            window_tsc: 2_000_000,
            threshold_tsc: 2_000,
        };
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let cpu = (0..1024).find(|&cpu| allowed.is_set(cpu as usize)).unwrap();
        let begin_tsc = tsc::now();
        let windows = rate(cpu, &config).unwrap();
        assert!(tsc::now() - begin_tsc >= 10_000_000);
        assert_eq!(windows.len(), 5);
        assert!(windows.iter().any(|it| it.steps > 0));
        assert!(windows.iter().all(|it| it.polled_tsc <= 2_000_000 + 2_000));
        assert!(rate(1 << 20, &config).is_err());
    }
}
