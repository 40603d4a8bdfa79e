//! A line below the supply-bound function.

use super::measured::MeasuredSupply;
use crate::taken::Taken;
use crate::unseen::Unseen;

/// In any window at least `rate` of what is longer than `delay_ns` was left: the bounded-delay
/// resource model of Mok, Feng and Chen, "Resource partition for real-time systems", RTAS 2001.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoundedDelay {
    /// Part of the time, at most 1; 0 only if more may have gone by unseen than was left.
    pub rate: f64,
    /// Nanoseconds.
    pub delay_ns: f64,
}

impl MeasuredSupply<'_> {
    /// The line that rises by `rate` (above 0 and at most 1), less what went by unseen in the long run, and is nowhere
    /// above what was left; over all windows of all runs. Of all such lines it has the least delay, if nothing
    /// went by unseen.
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
            // The sum of two lines: what gaps leave, and what is left by what went by unseen.
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

/// The most by which a window is longer than what it left, divided by the rate. A window that begins
/// where one gap begins and ends where another ends has most of it, so it is the largest sum of
/// stretches that follow one another, where a gap counts in full and what was left between two counts
/// against it.
fn delay_ns(run: &Taken<'_>, rate: f64) -> f64 {
    let against = 1.0 / rate - 1.0;
    let (mut largest_ns, mut sum_ns, mut until_ns) = (0.0_f64, 0.0_f64, run.from_ns);
    let gaps = run.begins_ns.iter().zip(run.lengths_ns);
    for ((begin_ns, length_ns), taken_ns) in gaps.zip(run.taken_ns()) {
        sum_ns = (sum_ns - against * (begin_ns - until_ns) as f64).max(0.0);
        // Time was taken where it does most harm: at the end of this gap for a window that begins
        // here, at its begin for one that ends here. Whatever of it was left lies between.
        sum_ns += *taken_ns as f64;
        largest_ns = largest_ns.max(sum_ns);
        sum_ns = (sum_ns - against * (length_ns - taken_ns) as f64).max(*taken_ns as f64);
        until_ns = begin_ns + length_ns;
    }
    largest_ns
}
