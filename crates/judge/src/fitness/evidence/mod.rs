//! Evidence about a run of a command. Each figure has a lower bound, and an upper bound if known.

use vmnoise_events::coverage::{
    CommandCoverage, Coverage, HiddenKind, HypervisorTime, Question, ShortPreflight,
    USUAL_THRESHOLD_NS,
};
use vmnoise_events::{FamilyLongest, FamilyLook, FamilyTaken, Share};

use crate::check::odds::is_excluded;

/// Probability that the hypervisor takes more time from a run than the upper bound.
const RISK: f64 = 0.05;
/// Number by which a preflight must be longer than a run, to have met the longest piece with a
/// probability of 1 - [`RISK`]: 19 / (19 + 1) = 0.95.
const TIMES_THE_RUN: u64 = 19;

/// Bounds of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Lower bound.
    pub least: u64,
    /// Upper bound; `None` if unseen time may have any length.
    pub most: Option<u64>,
}

/// Time that a hypervisor below this machine takes, and that the steal clock does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HypervisorRate {
    /// No hypervisor is below this machine.
    Nothing,
    /// The hypervisor's time was not measured.
    Unmeasured,
    /// The hypervisor's time was measured before the run. Each figure is the worst of all CPUs.
    Measured {
        /// Time for which each CPU was polled, in ns.
        polled_ns: u64,
        /// Time that the hypervisor took from the CPU meanwhile, in ns.
        taken_ns: u64,
        /// Longest time that the hypervisor took without a break, in ns.
        longest_ns: u64,
    },
}

impl HypervisorRate {
    /// Returns the time that the hypervisor took from threads that ran for `ran_ns`. A measured
    /// rate gives an upper bound. The bound assumes that the time comes in independent pieces, each
    /// as long as the longest one. Shorter pieces would make the bound smaller. The hypervisor took
    /// more than the bound with the probability `risk` at most.
    fn time(self, ran_ns: u64, risk: f64) -> HypervisorTime {
        match self {
            HypervisorRate::Nothing => HypervisorTime::Nothing,
            HypervisorRate::Unmeasured => HypervisorTime::Unmeasured,
            HypervisorRate::Measured {
                polled_ns,
                taken_ns,
                longest_ns,
            } => {
                // Pieces below the threshold are not seen.
                let piece_ns = longest_ns.max(USUAL_THRESHOLD_NS) as f64;
                let polled_part = polled_ns as f64 / polled_ns.saturating_add(ran_ns) as f64;
                let [seen, most] = [taken_ns, ran_ns].map(|ns| ns as f64 / piece_ns);
                let pieces = pieces_at_most(seen, polled_part, most, risk);
                HypervisorTime::Measured((pieces * piece_ns).ceil() as u64)
            }
        }
    }

    /// Returns the preflight if it was too short to bound the longest piece in a run whose threads
    /// ran for `ran_ns`. The longest piece of both comes at any of their moments alike. So it was in
    /// the preflight with a probability of 95 % if the preflight has 19 of 20 moments.
    fn short_preflight(self, ran_ns: u64) -> Option<ShortPreflight> {
        let needed_ns = ran_ns.saturating_mul(TIMES_THE_RUN);
        match self {
            HypervisorRate::Measured { polled_ns, .. } if polled_ns < needed_ns => {
                Some(ShortPreflight {
                    polled_ns,
                    needed_ns,
                })
            }
            _ => None,
        }
    }

    fn longest_ns(self) -> u64 {
        match self {
            HypervisorRate::Measured { longest_ns, .. } => longest_ns,
            HypervisorRate::Nothing | HypervisorRate::Unmeasured => 0,
        }
    }
}

/// Evidence for a verdict on a run of a command.
#[derive(Debug, Clone, PartialEq)]
pub struct FitnessEvidence {
    /// Sum of the time taken from all threads of the command, in ns.
    pub taken_ns: Range,
    /// Time taken from the thread that lost the most time, in ns. Other threads may have waited for
    /// this thread.
    pub worst_thread_ns: Range,
    /// Length of the run, in ns.
    pub wall_ns: u64,
    /// Longest time taken without a break, in ns.
    pub longest_ns: Range,
    /// Time of which the noise is a part, in ns: the time for which all threads could run, without
    /// waits for each other. At least the length of the run.
    pub of_ns: u64,
    /// Coverage of the command's threads by the events.
    pub coverage: Coverage,
}

impl FitnessEvidence {
    /// Returns the evidence from the traced events of a run that took `wall_ns`.
    pub fn traced(
        look: &FamilyLook,
        wall_ns: u64,
        sees_steal: bool,
        sees_nmi: bool,
        hypervisor: HypervisorRate,
    ) -> FitnessEvidence {
        let books = look.books();
        let beyond_steal = hypervisor.time(books.ran_ns, RISK);
        let waits = look.waits;
        let missed = look.unpaired + look.missed;
        // If the kernel counts longer waits than the events show, threads of other programs may
        // have run during the rest.
        let unshown_ns = match missed {
            0 => 0,
            _ => books.unshown_ns,
        };
        let doubt_ns = books.unseen_ns + waits.doubtful_ns + unshown_ns;
        let mut coverage = Coverage::of_command(CommandCoverage {
            untraced: None,
            threads: books.threads,
            unfollowed: look.unfollowed,
            missed,
            unbounded: look.unbounded,
            kernel_counts_waits: unshown_ns > 0 || books.kernel_waited_ns > 0,
            doubt_ns,
            beyond_steal,
            short_preflight: hypervisor.short_preflight(books.ran_ns),
        });
        coverage.watched.known[Share::Steal] = sees_steal;
        coverage.watched.known[Share::Nmi] = sees_nmi;
        let is_sum_bounded = is_bounded(&coverage, Question::Taken);
        // The limit is not known here, so the question is about a piece of any length.
        let is_longest_bounded = is_bounded(&coverage, Question::Longest(0.0));
        let taken_ns = books.taken_ns();
        let of_one_ns = look.most_of_one_ns();
        let (sure_ns, longest_ns) = longest_ns(look);
        let most = |ns: u64, beyond_ns: u64| ns.saturating_add(doubt_ns).saturating_add(beyond_ns);
        let beyond_ns = measured_ns(beyond_steal);
        // One thread runs for no longer than the run takes. Any of the threads may be the unlucky
        // one, so they share the risk.
        let risk = RISK / books.threads.max(1) as f64;
        let beyond_of_one_ns = beyond_ns.min(measured_ns(hypervisor.time(wall_ns, risk)));
        FitnessEvidence {
            // If the events do not show which thread ran while the command waited, this thread may
            // be one of the command's own.
            taken_ns: Range {
                least: taken_ns - waits.unnamed_ns.min(books.waited_ns),
                most: is_sum_bounded.then_some(most(taken_ns, beyond_ns)),
            },
            worst_thread_ns: Range {
                least: of_one_ns.saturating_sub(waits.unnamed_ns),
                most: is_sum_bounded.then_some(most(of_one_ns, beyond_of_one_ns)),
            },
            longest_ns: Range {
                least: sure_ns.saturating_sub(waits.unnamed_ns),
                most: is_longest_bounded.then_some(most(longest_ns, hypervisor.longest_ns())),
            },
            wall_ns,
            of_ns: wall_ns.max(books.runnable_ns()),
            coverage,
        }
    }

    /// Returns the lower bound (rounded down) and the upper bound (rounded up) of the noise, in
    /// millionths. Computes the noise over all threads together, and for the thread that lost the
    /// most time. Returns the larger result.
    pub fn noise_ppm(&self) -> Range {
        let all = in_millionths(self.taken_ns, self.of_ns);
        let one = in_millionths(self.worst_thread_ns, self.wall_ns);
        Range {
            least: all.least.max(one.least),
            most: all.most.zip(one.most).map(|(all, one)| all.max(one)),
        }
    }
}

/// Returns whether the unseen time that can change the answer has a known maximum, or is excluded.
fn is_bounded(coverage: &Coverage, question: Question) -> bool {
    let spots = coverage.blind_spots(question);
    let bounded = [HiddenKind::StatedTime, HiddenKind::Excluded];
    spots.iter().all(|it| bounded.contains(&it.hides()))
}

/// Returns the upper bound of the number of pieces in a run, between 0 and `most`. The polled time
/// had `seen` pieces, and is `polled_part` (0 to 1) of the polled time and the run together. So a
/// piece of both falls into the polled time with this probability. If the run had more pieces than
/// the bound, so few in the polled time would have the probability `risk` at most (Clopper and
/// Pearson).
fn pieces_at_most(seen: f64, polled_part: f64, most: f64, risk: f64) -> f64 {
    let (mut too_few, mut enough) = (0.0, most);
    for _ in 0..60 {
        let middle = (too_few + enough) / 2.0;
        match is_excluded(seen, middle, polled_part, risk) {
            true => enough = middle,
            false => too_few = middle,
        }
    }
    enough
}

/// Returns `taken_ns` in millionths of `of_ns`. Rounds the lower bound down and the upper bound up.
fn in_millionths(taken_ns: Range, of_ns: u64) -> Range {
    let of_ns = u128::from(of_ns.max(1));
    let ppm = |ns: u64| u128::from(ns) * 1_000_000;
    let clamp = |it: u128| u64::try_from(it).unwrap_or(u64::MAX);
    Range {
        least: clamp(ppm(taken_ns.least) / of_ns),
        most: taken_ns.most.map(|ns| clamp(ppm(ns).div_ceil(of_ns))),
    }
}

/// Returns two lengths in ns: the longest time that was certainly taken without a break, and the
/// longest that may have been taken without a break.
fn longest_ns(look: &FamilyLook) -> (u64, u64) {
    // Several pieces may have been added to the steal clock since it was last read.
    let is_surely_one = |it: &&FamilyLongest| it.taken != FamilyTaken::Steal;
    let sure = look.longest.iter().filter(is_surely_one).map(|it| it.ns);
    let all = look.longest.iter().map(|it| it.ns);
    (
        sure.fold(look.contiguous_ns, u64::max),
        all.fold(look.contiguous_ns, u64::max),
    )
}

const fn measured_ns(time: HypervisorTime) -> u64 {
    match time {
        HypervisorTime::Measured(ns) => ns,
        HypervisorTime::Nothing | HypervisorTime::Unmeasured => 0,
    }
}

#[cfg(test)]
mod tests;
