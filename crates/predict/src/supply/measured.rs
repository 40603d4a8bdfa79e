//! Supply-bound function of recordings, for response-time analyses: the least time that a window
//! left.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::thread;

use response_time_analysis::supply::SupplyBound;
use response_time_analysis::time::{Duration, Service};

use super::windows::{Worst, longest_for, taken_in_turn, worst_window};
use crate::taken::TakenTime;
use crate::unseen::Unseen;

/// Number of window lengths for which [`MeasuredSupply::drawn`] computes the function.
const DRAWN: u32 = 240;

/// Shortest of these window lengths, in nanoseconds.
const SHORTEST_NS: u64 = 1_000;

/// Window length, in nanoseconds, that is longer than any run and any requested time.
pub const NEVER_NS: u64 = u64::MAX / 4;

/// Least time that a CPU left to its task in any window of these runs. The value is exact for each
/// requested window length. A request needs one pass over all gaps, and its result is cached.
/// Unobserved time counts as taken, at the worst position.
#[derive(Debug)]
pub struct MeasuredSupply<'a> {
    pub(super) runs: Vec<TakenTime<'a>>,
    /// Unobserved time of each run; empty if all time of all runs was observed.
    pub(super) unseen: Vec<Unseen<'a>>,
    asked: RefCell<BTreeMap<u64, u64>>,
    times: RefCell<BTreeMap<u64, u64>>,
}

/// Window of a given length that may have left the least time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorstOfRuns {
    /// Index of the run that contains the window.
    pub run: usize,
    /// Position of the window, and the time that was taken in the window.
    pub window: Worst,
    /// Unobserved time in the window, in nanoseconds. This time may also have been taken.
    pub unseen_ns: u64,
}

impl WorstOfRuns {
    /// Returns the maximum time that a task may have lost in the window, in nanoseconds.
    pub fn lost_ns(&self) -> u64 {
        self.window.taken_ns + self.unseen_ns
    }
}

impl<'a> MeasuredSupply<'a> {
    /// Returns the supply of one or more runs of one CPU that were observed all the time.
    pub fn new(runs: Vec<TakenTime<'a>>) -> MeasuredSupply<'a> {
        MeasuredSupply::with_unseen(runs, Vec::new())
    }

    /// Returns the supply of one or more runs of one CPU. `unseen` has the unobserved time of each
    /// run.
    pub fn with_unseen(runs: Vec<TakenTime<'a>>, unseen: Vec<Unseen<'a>>) -> MeasuredSupply<'a> {
        MeasuredSupply {
            runs,
            unseen,
            asked: RefCell::default(),
            times: RefCell::default(),
        }
    }

    /// Returns the duration of the longest run, in nanoseconds. Longer windows are unknown.
    pub fn longest_run_ns(&self) -> u64 {
        self.runs.iter().map(TakenTime::span_ns).max().unwrap_or(0)
    }

    /// Returns the total duration of all runs, in nanoseconds.
    pub fn span_ns(&self) -> u64 {
        self.runs.iter().map(TakenTime::span_ns).sum()
    }

    /// Returns the fraction of the time of all runs that was left; 0 if the runs have no duration.
    pub fn rate(&self) -> f64 {
        let taken_ns: u64 = self.runs.iter().map(TakenTime::total_ns).sum();
        match self.span_ns() {
            0 => 0.0,
            span_ns => (span_ns - taken_ns) as f64 / span_ns as f64,
        }
    }

    /// Returns the supply as if nothing had been taken in unobserved time.
    pub fn as_seen(&self) -> MeasuredSupply<'a> {
        MeasuredSupply::new(self.runs.clone())
    }

    /// Returns the maximum unobserved time, in nanoseconds, in a window of this length of any run.
    pub fn unseen_at_most_ns(&self, length_ns: u64) -> u64 {
        let of_runs = self.unseen.iter().map(|it| it.at_most_ns(length_ns));
        of_runs.max().unwrap_or(0)
    }

    /// Returns the maximum unobserved time, in nanoseconds, in a window of this length of one run.
    fn unseen_ns(&self, run: usize, length_ns: u64) -> u64 {
        let unseen = self.unseen.get(run);
        unseen.map_or(0, |it| it.at_most_ns(length_ns))
    }

    /// Returns the total number of gaps of all runs.
    pub fn gaps(&self) -> usize {
        self.runs.iter().map(|run| run.begins_ns.len()).sum()
    }

    /// Returns the maximum time that was taken in a window of this length, in nanoseconds, for four
    /// parts of each run: the first eighth, the first quarter, the first half, and the whole run.
    /// An entry is `None` if the window is longer than that part.
    pub fn growth_ns(&self, length_ns: u64) -> [Option<u64>; 4] {
        [0.125, 0.25, 0.5, 1.0].map(|part| {
            let worst = self.first(part).worst(length_ns);
            worst.map(|it| it.window.taken_ns)
        })
    }

    /// Divides the runs into consecutive windows of this length. Returns the number of these
    /// windows, and the largest times that were taken in one window, in nanoseconds (at most `most`
    /// times).
    pub fn largest_in_turn_ns(&self, length_ns: u64, most: usize) -> (u64, Vec<u64>) {
        let turns = self
            .runs
            .iter()
            .flat_map(|run| taken_in_turn(run, length_ns));
        let (mut windows, mut largest) = (0, BinaryHeap::new());
        for taken_ns in turns {
            windows += 1;
            largest.push(Reverse(taken_ns));
            if largest.len() > most {
                largest.pop();
            }
        }
        let largest = largest.into_iter().map(|Reverse(ns)| ns);
        (windows, largest.collect())
    }

    /// Returns the supply of the first fraction `part` of each run.
    fn first(&self, part: f64) -> MeasuredSupply<'a> {
        MeasuredSupply::new(self.runs.iter().map(|run| run.first(part)).collect())
    }

    /// Returns the window of this length in which most time was taken, and the index of its run;
    /// `None` if no run is so long. A run that is shorter than the window also counts, as if
    /// nothing had been taken after its end.
    pub fn worst(&self, length_ns: u64) -> Option<WorstOfRuns> {
        if length_ns > self.longest_run_ns() {
            return None;
        }
        let whole = |run: &TakenTime<'_>| Worst {
            begin_ns: run.from_ns,
            taken_ns: run.total_ns(),
        };
        let worst = self.runs.iter().enumerate().map(|(run, taken)| {
            let window = worst_window(taken, length_ns).unwrap_or_else(|| whole(taken));
            // Taken and unobserved time together are at most as long as the window.
            let room_ns = length_ns - window.taken_ns;
            let unseen_ns = self.unseen_ns(run, length_ns).min(room_ns);
            WorstOfRuns {
                run,
                window,
                unseen_ns,
            }
        });
        // If several windows lost the same time, the first window is returned.
        worst.reduce(|worst, other| match other.lost_ns() > worst.lost_ns() {
            true => other,
            false => worst,
        })
    }

    /// Returns the least time that was left in a window of this length, in nanoseconds. If the
    /// window is longer than all runs, the result is for a window as long as the longest run.
    pub fn least_ns(&self, length_ns: u64) -> u64 {
        let length_ns = length_ns.min(self.longest_run_ns());
        if let Some(least_ns) = self.asked.borrow().get(&length_ns) {
            return *least_ns;
        }
        let worst = self.worst(length_ns);
        let least_ns = length_ns - worst.map_or(length_ns, |it| it.lost_ns());
        self.asked.borrow_mut().insert(length_ns, least_ns);
        least_ns
    }

    /// Returns a window length, in nanoseconds, for which every window left at least `supply_ns`.
    /// If all time was observed, it is the smallest such length. Returns [`NEVER_NS`] if no run
    /// left `supply_ns` in total. If only some run left less, this run counts as if it had
    /// continued without gaps until it left `supply_ns`.
    pub fn length_for_ns(&self, supply_ns: u64) -> u64 {
        if let Some(length_ns) = self.times.borrow().get(&supply_ns) {
            return *length_ns;
        }
        let of_runs = (0..self.runs.len()).map(|run| self.length_of_run(run, supply_ns));
        let of_runs: Vec<(u64, bool)> = of_runs.collect();
        let length_ns = match of_runs.iter().any(|(_, has_it)| *has_it) {
            true => of_runs.iter().map(|(ns, _)| *ns).max().unwrap_or(NEVER_NS),
            false => NEVER_NS,
        };
        self.times.borrow_mut().insert(supply_ns, length_ns);
        length_ns
    }

    /// Returns the window length for one run, and whether the run is at least so long.
    fn length_of_run(&self, run: usize, supply_ns: u64) -> (u64, bool) {
        let taken = &self.runs[run];
        let mut unseen_ns = 0;
        loop {
            let asked_ns = supply_ns.saturating_add(unseen_ns);
            let found = longest_for(taken, asked_ns);
            let length_ns = found.unwrap_or_else(|| asked_ns.saturating_add(taken.total_ns()));
            // A longer window may contain more unobserved time.
            let now_ns = self.unseen_ns(run, length_ns);
            if now_ns <= unseen_ns {
                return (length_ns, found.is_some());
            }
            unseen_ns = now_ns;
        }
    }

    /// Returns the number of consecutive windows of this length that fit in the runs.
    pub fn windows(&self, length_ns: u64) -> u64 {
        let of_runs = self.runs.iter().map(|run| run.span_ns() / length_ns.max(1));
        of_runs.sum()
    }

    /// Returns a lower bound of the time that was left in a window of this length. It is derived
    /// from the window lengths that were requested so far.
    ///
    /// If a window grows, the time that it leaves never falls, and grows by at most as much as the
    /// window. So for a length between two requested lengths, the time is at least the time for the
    /// shorter length. It is also at least the time for the longer length, minus the difference
    /// between the two lengths.
    pub fn at_least_ns(&self, length_ns: u64) -> u64 {
        let asked = self.asked.borrow();
        let shorter = asked.range(..=length_ns).next_back();
        let longer = asked.range(length_ns..).next();
        let by_shorter_ns = shorter.map_or(0, |(_, least_ns)| *least_ns);
        let by_longer_ns = longer.map_or(0, |(longer_ns, least_ns)| {
            least_ns.saturating_sub(longer_ns - length_ns)
        });
        by_shorter_ns.max(by_longer_ns)
    }

    /// Returns the smallest length for which [`MeasuredSupply::at_least_ns`] returns at least
    /// `supply_ns`; `None` if no requested length is sufficient.
    pub(super) fn at_least_length_ns(&self, supply_ns: u64) -> Option<u64> {
        if supply_ns == 0 {
            return Some(0);
        }
        // Below the first requested length that left this time, the bound falls as fast as the
        // length, down to the previous requested length.
        let asked = self.asked.borrow();
        let mut longer_ns = 0;
        for (length_ns, least_ns) in asked.iter() {
            if let Some(spare_ns) = least_ns.checked_sub(supply_ns) {
                let shortest_ns = length_ns.saturating_sub(spare_ns);
                return Some(shortest_ns.max(longer_ns));
            }
            longer_ns = *length_ns + 1;
        }
        None
    }

    /// Returns pairs of a window length and the least time that was left in such a window, in
    /// nanoseconds. The lengths are evenly spaced by their logarithms, from a microsecond to the
    /// longest run. The computation uses all CPUs of this machine.
    pub fn drawn(&self) -> Vec<(u64, u64)> {
        let lengths_ns = drawn_lengths_ns(self.longest_run_ns());
        let is_new = |length_ns: &u64| !self.asked.borrow().contains_key(length_ns);
        let new: Vec<u64> = lengths_ns.iter().copied().filter(is_new).collect();
        let (runs, unseen, new) = (&self.runs, &self.unseen, &new);
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let of_thread = |nth: usize| {
            let alone = MeasuredSupply::with_unseen(runs.clone(), unseen.clone());
            let lengths_ns = new.iter().skip(nth).step_by(threads);
            let least = lengths_ns.map(|it| (*it, alone.least_ns(*it)));
            least.collect::<Vec<_>>()
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads.min(new.len()))
                .map(|nth| scope.spawn(move || of_thread(nth)))
                .collect();
            for worker in workers {
                let least = worker.join().expect("a pass over gaps does not panic");
                self.asked.borrow_mut().extend(least);
            }
        });
        let drawn = lengths_ns.iter().map(|it| (*it, self.least_ns(*it)));
        drawn.collect()
    }
}

/// Returns the window lengths to compute, without duplicates.
fn drawn_lengths_ns(longest_ns: u64) -> Vec<u64> {
    let steps = f64::from(DRAWN - 1);
    let ratio = (longest_ns as f64 / SHORTEST_NS as f64).max(1.0);
    let of_step = |step: u32| {
        let length_ns = SHORTEST_NS as f64 * ratio.powf(f64::from(step) / steps);
        (length_ns.round() as u64).min(longest_ns)
    };
    let mut lengths_ns: Vec<u64> = (0..DRAWN).map(of_step).collect();
    lengths_ns.push(longest_ns);
    lengths_ns.dedup();
    lengths_ns
}

impl SupplyBound for MeasuredSupply<'_> {
    fn provided_service(&self, delta: Duration) -> Service {
        Service::from(self.least_ns(delta.into()))
    }

    fn service_time(&self, demand: Service) -> Duration {
        Duration::from(self.length_for_ns(demand.into()))
    }
}
