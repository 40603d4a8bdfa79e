//! How fast a command's threads worked while they had a CPU. A lower frequency is time lost without a gap; it has
//! a budget of its own, and no verdict rests on it.

use std::io;

use serde::Serialize;
use vmnoise_tracer::{Rate, RateCounters};

/// A piece of a run counts as a window where its threads had CPUs for so long, in ns: what comes between the readings
/// of two counters, some microseconds, is a thousandth of it.
const LEAST_NS: u64 = 20_000_000;

/// What is known of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunRate {
    /// Instructions for each cycle. A busy sibling of the core, shared caches and memory make it smaller; so does other
    /// work, so it is to be held against other runs of the same command.
    pub instructions_per_cycle: Option<f64>,
    /// Cycles for each cycle of the TSC; `None` where this CPU does not count the latter.
    pub frequency: Option<f64>,
    /// The same of the window in which it was largest.
    pub best_frequency: Option<f64>,
    /// How much shorter the threads would have had CPUs at that frequency, in ns over all of them.
    pub lost_ns: Option<u64>,
    /// How much of the time for which they had CPUs was counted, in percent.
    pub counted_percent: Option<f64>,
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

    /// Reads them: a window ends here, if it is long enough.
    pub fn look(&mut self) {
        let Ok(Ok(now)) = self.counters.as_ref().map(RateCounters::read) else {
            return;
        };
        self.all = now;
        let window = since(&self.last, &now);
        if window.counted_ns >= LEAST_NS {
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
            Ok(_) => Ok(RunRate::new(&self.all, &self.windows)),
            Err(why) => Err(match why.kind() {
                io::ErrorKind::NotFound => {
                    "this machine has no counters of cycles (a hypervisor may hide them: `-cpu host,pmu=on`)".to_owned()
                }
                io::ErrorKind::PermissionDenied => {
                    "the counters of cycles may not be read: run as root, or see kernel.perf_event_paranoid".to_owned()
                }
                _ => format!("the counters of cycles cannot be read: {why}"),
            }),
        }
    }
}

impl RunRate {
    fn new(all: &Rate, windows: &[Rate]) -> RunRate {
        let frequency = |it: &Rate| ratio(it.cycles, it.ref_cycles?);
        let known = windows.iter().filter_map(frequency);
        let best_frequency = known.max_by(f64::total_cmp);
        let frequency = frequency(all);
        let lost = frequency.zip(best_frequency).map(|(had, best)| {
            // The part of a run that is no window may have been faster than all of them.
            let lost_part = (1.0 - had / best).max(0.0);
            (lost_part * all.ran_ns as f64).round() as u64
        });
        RunRate {
            instructions_per_cycle: ratio(all.instructions, all.cycles),
            frequency,
            best_frequency,
            lost_ns: lost,
            counted_percent: ratio(all.counted_ns, all.ran_ns).map(|it| it * 100.0),
        }
    }
}

fn ratio(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

fn since(before: &Rate, now: &Rate) -> Rate {
    let ref_cycles = now.ref_cycles.zip(Some(before.ref_cycles.unwrap_or(0)));
    Rate {
        cycles: now.cycles.saturating_sub(before.cycles),
        instructions: now.instructions.saturating_sub(before.instructions),
        ref_cycles: ref_cycles.map(|(now, before)| now.saturating_sub(before)),
        ran_ns: now.ran_ns.saturating_sub(before.ran_ns),
        counted_ns: now.counted_ns.saturating_sub(before.counted_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many ms at so many GHz, on a machine whose TSC has 2 GHz, with two instructions in each cycle.
    fn window(ms: u64, ghz: u64) -> Rate {
        let cycles = ms * ghz * 1_000_000;
        Rate {
            cycles,
            instructions: cycles * 2,
            ref_cycles: Some(ms * 2_000_000),
            ran_ns: ms * 1_000_000,
            counted_ns: ms * 1_000_000,
        }
    }

    fn sum(windows: &[Rate]) -> Rate {
        let mut all = Rate {
            ref_cycles: Some(0),
            ..Rate::default()
        };
        for it in windows {
            all.cycles += it.cycles;
            all.instructions += it.instructions;
            all.ref_cycles = all.ref_cycles.zip(it.ref_cycles).map(|(a, b)| a + b);
            all.ran_ns += it.ran_ns;
            all.counted_ns += it.counted_ns;
        }
        all
    }

    /// 300 ms at 2 GHz are 600 million cycles: 200 ms at 3 GHz.
    #[test]
    fn what_a_lower_frequency_took_is_told_to_the_nanosecond() {
        let windows = [window(100, 3), window(300, 2)];
        let rate = RunRate::new(&sum(&windows), &windows);
        assert_eq!(rate.lost_ns, Some(100_000_000));
        assert_eq!(rate.best_frequency, Some(1.5));
        assert_eq!(rate.frequency, Some(1.125));
        assert_eq!(rate.instructions_per_cycle, Some(2.0));
        assert_eq!(rate.counted_percent, Some(100.0));
    }

    #[test]
    fn a_steady_frequency_lost_nothing() {
        let windows = [window(100, 2), window(300, 2)];
        assert_eq!(RunRate::new(&sum(&windows), &windows).lost_ns, Some(0));
    }

    #[test]
    fn without_reference_cycles_and_windows_nothing_is_said_of_the_frequency() {
        let mut amd = window(100, 3);
        amd.ref_cycles = None;
        let rate = RunRate::new(&amd, &[amd]);
        assert_eq!((rate.frequency, rate.lost_ns), (None, None));
        assert_eq!(rate.instructions_per_cycle, Some(2.0));
        let short = RunRate::new(&window(3, 3), &[]);
        assert_eq!((short.frequency, short.lost_ns), (Some(1.5), None));
        let nothing = RunRate::new(&Rate::default(), &[]);
        assert_eq!(nothing.instructions_per_cycle, None);
    }
}
