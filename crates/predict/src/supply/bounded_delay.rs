//! A line below the supply-bound function.

use super::measured::MeasuredSupply;
use crate::taken::TakenTime;
use crate::unseen::Unseen;

/// Bounded-delay resource model: any window that is longer than `delay_ns` left at least `rate` of
/// its excess over `delay_ns`. Source: Mok, Feng and Chen, "Resource partition for real-time
/// systems", RTAS 2001.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoundedDelay {
    /// Part of the time, at most 1. It is 0 only if more time may have been unobserved than was
    /// left.
    pub rate: f64,
    /// Delay in nanoseconds.
    pub delay_ns: f64,
}

impl MeasuredSupply<'_> {
    /// Returns a line that is nowhere above the time that was left, over all windows of all runs.
    /// Its slope is `rate` (above 0 and at most 1), less the unobserved part of the whole time. If
    /// no time was unobserved, it is the line of this slope with the least delay.
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
            // The sum of two lines: the time that gaps leave, and the time that unobserved time
            // leaves.
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

/// Returns the most by which a window is longer than the quotient of the time that it left and
/// `rate`.
///
/// The worst window begins at the begin of one gap and ends at the end of another. So the result is
/// the largest sum over consecutive gaps and the times between them. A gap counts in full. The time
/// that was left between two gaps is subtracted, times 1 / `rate` - 1.
fn delay_ns(run: &TakenTime<'_>, rate: f64) -> f64 {
    let against = 1.0 / rate - 1.0;
    let (mut largest_ns, mut sum_ns, mut until_ns) = (0.0_f64, 0.0_f64, run.from_ns);
    let gaps = run.begins_ns.iter().zip(run.lengths_ns);
    for ((begin_ns, length_ns), taken_ns) in gaps.zip(run.taken_ns()) {
        sum_ns = (sum_ns - against * (begin_ns - until_ns) as f64).max(0.0);
        // The taken time is where it does most harm: at the end of this gap for a window that
        // begins here, and at its begin for a window that ends here. The rest of the gap is between
        // these.
        sum_ns += *taken_ns as f64;
        largest_ns = largest_ns.max(sum_ns);
        sum_ns = (sum_ns - against * (length_ns - taken_ns) as f64).max(*taken_ns as f64);
        until_ns = begin_ns + length_ns;
    }
    largest_ns
}
