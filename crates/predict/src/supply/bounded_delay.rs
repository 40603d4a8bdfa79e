//! A line that is never above the supply-bound function.

use super::measured::MeasuredSupply;
use crate::taken::TakenTime;
use crate::unseen::Unseen;

/// Bounded-delay resource model: a window of length L left at least `rate` * (L - `delay_ns`).
/// Source: Mok, Feng and Chen, "Resource partition for real-time systems", RTAS 2001.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoundedDelay {
    /// Fraction of the time that was left, at most 1. It is 0 only if the unobserved time may be
    /// more than the time that was left.
    pub rate: f64,
    /// Delay of the model, in nanoseconds.
    pub delay_ns: f64,
}

impl MeasuredSupply<'_> {
    /// Returns a line that is nowhere above the least time that windows of the runs left. Its slope
    /// is `rate` (above 0 and at most 1) minus the unobserved fraction of the whole time. If all
    /// time was observed, the line has the smallest delay that is possible with this slope.
    pub fn bounded_delay(&self, rate: f64) -> BoundedDelay {
        let unseen_ns: u64 = self.unseen.iter().map(Unseen::total_ns).sum();
        let unseen = unseen_ns as f64 / self.span_ns().max(1) as f64;
        let both = rate - unseen;
        if both <= 0.0 {
            return BoundedDelay {
                rate: 0.0,
                delay_ns: self.longest_run_ns() as f64,
            };
        }
        let delays_ns = self.runs.iter().enumerate().map(|(nth, run)| {
            let Some(by) = self.unseen.get(nth) else {
                return delay_ns(run, rate);
            };
            // The line is the sum of two lines: one for the time that gaps leave, one for the time
            // that unobserved time leaves.
            let looked = 1.0 - unseen;
            let seen_ns = rate * delay_ns(run, rate);
            let unseen_ns = looked * delay_ns(by.located(), looked) + by.anywhere_ns() as f64;
            (seen_ns + unseen_ns) / both
        });
        BoundedDelay {
            rate: both,
            delay_ns: delays_ns.fold(0.0, f64::max),
        }
    }
}

/// Returns the largest value, over all windows, of the window's length minus the time that it left
/// divided by `rate`.
///
/// The window with the largest value begins at the begin of a gap and ends at the end of a gap. So
/// the result is the largest sum over consecutive gaps. A gap adds its length. The time that was
/// left between two gaps is multiplied by 1 / `rate` - 1 and subtracted.
fn delay_ns(run: &TakenTime<'_>, rate: f64) -> f64 {
    let against = 1.0 / rate - 1.0;
    let (mut largest_ns, mut sum_ns, mut until_ns) = (0.0_f64, 0.0_f64, run.from_ns);
    let gaps = run.begins_ns.iter().zip(run.lengths_ns);
    for ((begin_ns, length_ns), taken_ns) in gaps.zip(run.taken_ns()) {
        sum_ns = (sum_ns - against * (begin_ns - until_ns) as f64).max(0.0);
        // Within this gap, the taken time is assumed to be at the worst position. For a window that
        // begins here, it is at the end of the gap; for a window that ends here, at the begin. The
        // rest of the gap is between these two positions.
        sum_ns += *taken_ns as f64;
        largest_ns = largest_ns.max(sum_ns);
        sum_ns = (sum_ns - against * (length_ns - taken_ns) as f64).max(*taken_ns as f64);
        until_ns = begin_ns + length_ns;
    }
    largest_ns
}
