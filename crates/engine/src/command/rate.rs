//! Work rate of a command's threads while they had a CPU. A lower frequency costs time without a
//! gap, so this loss has its own budget and affects no verdict.

use std::io;

use vmnoise_tracer::{Count, Rate, RateCounters};
use vmnoise_views::RunRate;

/// Least counted time of a window, in ns. Each counter is divided by its own counting time, so a
/// delay between two readings matters only if the frequency changes during the delay.
const LEAST_NS: u64 = 20_000_000;

/// Counters for the command that the calling thread starts next.
pub struct RateWitness {
    counters: Result<RateCounters, io::Error>,
    last: Rate,
    all: Rate,
    windows: Vec<Rate>,
}

impl RateWitness {
    /// Opens the counters, if the machine has them.
    pub fn of_next_command() -> RateWitness {
        RateWitness {
            counters: RateCounters::of_next_programs(),
            last: Rate::default(),
            all: Rate::default(),
            windows: Vec::new(),
        }
    }

    /// Reads the counters, and ends a window if it is long enough. After an error, the counters are
    /// not read again.
    pub fn look(&mut self) {
        let Ok(counters) = &self.counters else {
            return;
        };
        match counters.read() {
            Ok(now) => self.ends(now),
            Err(why) => self.counters = Err(why),
        }
    }

    fn ends(&mut self, now: Rate) {
        self.all = now;
        let window = since(&self.last, &now);
        if window.cycles.running_ns >= LEAST_NS {
            self.last = now;
            self.windows.push(window);
        }
    }

    /// Returns the rates of the whole run.
    ///
    /// # Errors
    /// A sentence that says why there are no rates.
    pub fn finish(mut self) -> Result<RunRate, String> {
        self.look();
        match self.counters {
            Ok(counters) => Ok(run_rate(&self.all, &self.windows, counters.own_code)),
            Err(why) => Err(match why.kind() {
                io::ErrorKind::NotFound => {
                    "this machine has no cycle counters; a hypervisor may hide them: start QEMU with `-cpu host,pmu=on`".to_owned()
                }
                io::ErrorKind::PermissionDenied => {
                    "the cycle counters may not be read: run as root, or lower kernel.perf_event_paranoid; in a \
                     container change its seccomp profile, too"
                        .to_owned()
                }
                _ => format!("the cycle counters cannot be read: {why}"),
            }),
        }
    }
}

/// Returns the rates of a run with these windows.
fn run_rate(all: &Rate, windows: &[Rate], own_code: bool) -> RunRate {
    let frequency = |it: &Rate| quotient(&it.cycles, it.ref_cycles.as_ref()?);
    let known: Vec<f64> = windows.iter().filter_map(frequency).collect();
    let best_frequency = known.iter().copied().max_by(f64::total_cmp);
    // A single window can only be compared with itself.
    let best_frequency = best_frequency.filter(|_| known.len() > 1);
    let frequency = frequency(all);
    // The time after the last window may have been faster than all windows.
    let lost = frequency.zip(best_frequency);
    let counted = all.cycles.running_ns as f64 / all.cycles.enabled_ns as f64;
    RunRate {
        instructions_per_cycle: quotient(&all.instructions, &all.cycles),
        frequency,
        best_frequency,
        lost_percent: lost.map(|(had, best)| (1.0 - had / best).max(0.0) * 100.0),
        counted_percent: (all.cycles.enabled_ns > 0).then_some(counted * 100.0),
        own_code,
    }
}

/// Returns `one` divided by `other`, each as a rate.
fn quotient(one: &Count, other: &Count) -> Option<f64> {
    let other = other.rate().filter(|it| *it > 0.0)?;
    Some(one.rate()? / other)
}

fn since(before: &Rate, now: &Rate) -> Rate {
    let was = before.ref_cycles.unwrap_or_default();
    Rate {
        cycles: now.cycles.since(&before.cycles),
        instructions: now.instructions.since(&before.instructions),
        ref_cycles: now.ref_cycles.map(|it| it.since(&was)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(events: u64, ms: u64) -> Count {
        Count {
            events,
            enabled_ns: ms * 1_000_000,
            running_ns: ms * 1_000_000,
        }
    }

    /// Returns a window of `ms` at `ghz`, with a TSC of 2 GHz and two instructions per cycle.
    fn window(ms: u64, ghz: u64) -> Rate {
        let cycles = ms * ghz * 1_000_000;
        Rate {
            cycles: count(cycles, ms),
            instructions: count(cycles * 2, ms),
            ref_cycles: Some(count(ms * 2_000_000, ms)),
        }
    }

    /// Returns the result for these windows, read as cumulative sums.
    fn told(windows: &[Rate]) -> RunRate {
        let mut witness = RateWitness {
            counters: Err(io::ErrorKind::NotFound.into()),
            last: Rate::default(),
            all: Rate::default(),
            windows: Vec::new(),
        };
        let plus = |one: Count, other: Count| Count {
            events: one.events + other.events,
            enabled_ns: one.enabled_ns + other.enabled_ns,
            running_ns: one.running_ns + other.running_ns,
        };
        for it in windows {
            let all = witness.all;
            let was = all.ref_cycles.unwrap_or_default();
            witness.ends(Rate {
                cycles: plus(all.cycles, it.cycles),
                instructions: plus(all.instructions, it.instructions),
                ref_cycles: it.ref_cycles.map(|it| plus(was, it)),
            });
        }
        run_rate(&witness.all, &witness.windows, false)
    }

    /// 300 ms at 2 GHz are 600 million cycles, which take 200 ms at 3 GHz. The run took 400 ms for
    /// work that takes 300 ms at 3 GHz.
    #[test]
    fn what_a_lower_frequency_took_is_told() {
        let rate = told(&[window(100, 3), window(300, 2)]);
        assert_eq!(rate.lost_percent, Some(25.0));
        assert_eq!(rate.best_frequency, Some(1.5));
        assert_eq!(rate.frequency, Some(1.125));
        assert_eq!(rate.instructions_per_cycle, Some(2.0));
        assert_eq!(rate.counted_percent, Some(100.0));
    }

    #[test]
    fn a_steady_frequency_lost_nothing_and_one_window_says_nothing() {
        assert_eq!(
            told(&[window(100, 2), window(300, 2)]).lost_percent,
            Some(0.0)
        );
        let one = told(&[window(150, 2)]);
        assert_eq!((one.lost_percent, one.best_frequency), (None, None));
        // A piece of 3 ms is too short for a window.
        assert_eq!(told(&[window(150, 2), window(3, 3)]).lost_percent, None);
    }

    /// The reader is delayed by 10 ms between the readings of two counters.
    #[test]
    fn a_late_reading_of_one_counter_makes_no_frequency() {
        let (mut late, mut next) = (window(200, 2), window(200, 2));
        late.ref_cycles = Some(count(210 * 2_000_000, 210));
        next.ref_cycles = Some(count(190 * 2_000_000, 190));
        assert_eq!(told(&[late, next]).lost_percent, Some(0.0));
    }

    #[test]
    fn without_reference_cycles_nothing_is_said_of_the_frequency() {
        let mut old = window(100, 3);
        old.ref_cycles = None;
        let rate = told(&[old, old]);
        assert_eq!((rate.frequency, rate.lost_percent), (None, None));
        assert_eq!(rate.instructions_per_cycle, Some(2.0));
        let nothing = told(&[]);
        assert_eq!((nothing.frequency, nothing.counted_percent), (None, None));
    }
}
