//! How fast a command's threads worked while they had a CPU. A lower frequency is time lost without a gap; it has
//! a budget of its own, and no verdict rests on it.

use std::io;

use serde::Serialize;
use vmnoise_tracer::{Count, Rate, RateCounters};

/// A piece of a run counts as a window where its threads were counted for so long, in ns. Each counter is held against its own
/// time, so what comes between the readings of two matters only as far as the frequency changes meanwhile.
const LEAST_NS: u64 = 20_000_000;

/// What is known of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunRate {
    /// Instructions for each cycle. A busy sibling of the core, shared caches and memory make it smaller; so does other
    /// work, so it is to be held against other runs of the same command.
    pub instructions_per_cycle: Option<f64>,
    /// Cycles for each cycle of the TSC; `None` where this CPU does not count the latter.
    pub frequency: Option<f64>,
    /// The same of the window in which it was largest; `None` of a run of fewer than two.
    pub best_frequency: Option<f64>,
    /// How much less was done than at that frequency, in percent; gaps have no part in it.
    pub lost_percent: Option<f64>,
    /// How much of the time for which the threads had CPUs was counted, in percent.
    pub counted_percent: Option<f64>,
    /// Whether the programs' own code alone was counted, for want of rights.
    pub own_code: bool,
}

/// Counters of the command that the calling thread starts next.
pub struct RateWitness {
    counters: Result<RateCounters, io::Error>,
    last: Rate,
    all: Rate,
    windows: Vec<Rate>,
}

impl RateWitness {
    /// Opens them, if there are any.
    pub fn of_next_command() -> RateWitness {
        RateWitness {
            counters: RateCounters::of_next_programs(),
            last: Rate::default(),
            all: Rate::default(),
            windows: Vec::new(),
        }
    }

    /// Reads them: a window ends here, if it is long enough. What cannot be read once is not read again.
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

    /// What they said.
    ///
    /// # Errors
    /// Why there is nothing, in words.
    pub fn finish(mut self) -> Result<RunRate, String> {
        self.look();
        match self.counters {
            Ok(counters) => Ok(RunRate::new(&self.all, &self.windows, counters.own_code)),
            Err(why) => Err(match why.kind() {
                io::ErrorKind::NotFound => {
                    "this machine has no counters of cycles (a hypervisor may hide them: `-cpu host,pmu=on`)".to_owned()
                }
                io::ErrorKind::PermissionDenied => {
                    "the counters of cycles may not be read: run as root, or see kernel.perf_event_paranoid, and in a \
                     container its seccomp profile"
                        .to_owned()
                }
                _ => format!("the counters of cycles cannot be read: {why}"),
            }),
        }
    }
}

impl RunRate {
    fn new(all: &Rate, windows: &[Rate], own_code: bool) -> RunRate {
        let frequency = |it: &Rate| quotient(&it.cycles, it.ref_cycles.as_ref()?);
        let known: Vec<f64> = windows.iter().filter_map(frequency).collect();
        let best_frequency = known.iter().copied().max_by(f64::total_cmp);
        // One alone is no faster than itself, and says nothing.
        let best_frequency = best_frequency.filter(|_| known.len() > 1);
        let frequency = frequency(all);
        // The part of a run that is no window may have been faster than all of them.
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
}

/// Of two rates.
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

    /// So many ms at so many GHz, on a machine whose TSC has 2 GHz, with two instructions in each cycle.
    fn window(ms: u64, ghz: u64) -> Rate {
        let cycles = ms * ghz * 1_000_000;
        Rate {
            cycles: count(cycles, ms),
            instructions: count(cycles * 2, ms),
            ref_cycles: Some(count(ms * 2_000_000, ms)),
        }
    }

    /// What a witness says that reads the sums of these.
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
        RunRate::new(&witness.all, &witness.windows, false)
    }

    /// 300 ms at 2 GHz are 600 million cycles: 200 ms at 3 GHz. So 400 ms did what takes 300.
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
        // What is shorter is no window.
        assert_eq!(told(&[window(150, 2), window(3, 3)]).lost_percent, None);
    }

    /// As where whoever reads is kept waiting for 10 ms between two of the counters.
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
