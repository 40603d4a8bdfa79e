//! What may be said of each task.

use response_time_analysis::fixed_point::SearchFailure;
use vmnoise_events::coverage::{BlindSpot, Hides, Question};

use super::breakdown::{BreakdownGap, breakdown_gap};
use super::task::{Policy, Task};
use super::{Response, jobs_in, response};
use crate::supply::MeasuredSupply;

/// Were windows alike and independent, the next one would be worse than all of so many with less than
/// one percent. A window is as long as a busy one, and as a period: each job has one.
pub const WINDOWS: u64 = 100;

/// Jobs that come less often meet windows of the supply as any others do: these need not be farther apart, in nanoseconds.
const LONGEST_PERIOD_NS: u64 = 1_000_000_000;

/// A miss that comes more often than once in so many windows is not seen in any of them in one case of a hundred: for
/// small rates the logarithm of 100.
const UNSEEN_ONCE_IN_A_HUNDRED: f64 = 4.605;

/// Each job in a busy window is looked at, and a pass over all gaps for each: so many of both together take no
/// noticeable time, some fifty times over.
const EXACT_LOOKS: u64 = 1_000_000;

/// Whether a task keeps its deadline with what was recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// Each of its jobs would have been done in time, whenever they had come.
    Holds,
    /// Some of its jobs might not have been.
    MayMiss,
    /// In the long run the tasks need more than was left.
    Overloads {
        /// The part of the time that they need.
        needs: f64,
        /// The part that was left.
        left: f64,
    },
    /// The recording is too short.
    TooShort {
        /// How long it would have to be, nanoseconds; `None` if that is not known either.
        needs_ns: Option<u64>,
    },
    /// The recording could not see what would decide it.
    Blind,
    /// More jobs would have to be looked at than anybody waits for.
    TooMany,
}

/// A task, judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// What of it is bounded; `None` if nothing is, within the recording's length.
    pub response: Option<Response>,
    /// Whether it keeps its deadline.
    pub verdict: Verdict,
    /// The shortest gap that nobody saw with which it might not; `None` where it may not already.
    pub breakdown_gap: Option<BreakdownGap>,
    /// How many windows, each as long as its busy one and as its period, follow one another in what was
    /// recorded; `None` without a bound.
    pub windows: Option<u64>,
    /// Of a task that holds: misses that come more often than once in so long would have been seen with 99 %; nanoseconds.
    pub excluded_every_ns: Option<u64>,
    /// What the recordings could not see that decides it.
    pub blind_spots: Vec<BlindSpot>,
}

/// Judges each task of a set. `blocking_ns` as in [`response`]; `blind_spots`: what the recordings could not see.
pub fn judge(
    policy: Policy,
    tasks: &[Task],
    supply: &MeasuredSupply<'_>,
    blocking_ns: u64,
    blind_spots: &dyn Fn(Question) -> Vec<BlindSpot>,
) -> Vec<Judged> {
    let limit_ns = supply.longest_run_ns();
    let of = |of: usize| {
        let found = match overload(policy, tasks, of, supply) {
            Some(overloads) => Err(overloads),
            None => response(policy, tasks, of, supply, blocking_ns, limit_ns).map_err(unbounded),
        };
        let deadline_ns = tasks[of].deadline_ns;
        let holds_as_seen = || {
            let seen = supply.as_seen();
            let found = response(policy, tasks, of, &seen, blocking_ns, limit_ns);
            found.is_ok_and(|it| it.bound_ns <= deadline_ns)
        };
        let period_ns = tasks[of].period_ns.min(LONGEST_PERIOD_NS);
        let window_ns = |it: &Response| it.busy_window_ns.max(period_ns);
        let (counted, hidden): (Vec<_>, Vec<_>) =
            blind_spots(Question::TakenFrom(tasks[of].scheduled(policy)))
                .into_iter()
                .partition(|it| it.hides() == Hides::StatedTime);
        let windows = found.as_ref().ok().map(|it| supply.windows(window_ns(it)));
        let verdict = match (&found, windows) {
            (Err(verdict @ Verdict::TooShort { .. }), _) => match holds_as_seen() {
                true => Verdict::Blind,
                false => *verdict,
            },
            (Err(verdict), _) => *verdict,
            (Ok(found), _) if found.bound_ns > deadline_ns => match holds_as_seen() {
                true => Verdict::Blind,
                false => Verdict::MayMiss,
            },
            (Ok(_), _) if !hidden.is_empty() => Verdict::Blind,
            (Ok(found), Some(windows)) if windows < WINDOWS => Verdict::TooShort {
                needs_ns: Some(window_ns(found).saturating_mul(WINDOWS)),
            },
            (Ok(_), _) => Verdict::Holds,
        };
        let response = found.ok().filter(|it| it.bound_ns <= deadline_ns);
        let gap = response.and_then(|it| gap(policy, tasks, of, supply, blocking_ns, it));
        let is_bounded = response.is_some();
        let blind_spots = match verdict {
            Verdict::Blind if is_bounded => hidden,
            Verdict::Blind => [counted, hidden].concat(),
            _ => Vec::new(),
        };
        let holds = found
            .ok()
            .zip(windows)
            .filter(|_| verdict == Verdict::Holds);
        Judged {
            response: found.ok(),
            verdict,
            breakdown_gap: gap,
            windows,
            excluded_every_ns: holds.map(|(it, windows)| {
                (window_ns(&it) as f64 * windows as f64 / UNSEEN_ONCE_IN_A_HUNDRED) as u64
            }),
            blind_spots,
        }
    };
    (0..tasks.len()).map(of).collect()
}

/// Why no bound was found.
fn unbounded(failure: SearchFailure) -> Verdict {
    match failure {
        SearchFailure::DivergenceLimitExceeded { .. } => Verdict::TooShort { needs_ns: None },
        SearchFailure::AssumptionViolated => Verdict::TooMany,
    }
}

/// Whether those that go before a task need more with it than was left.
fn overload(
    policy: Policy,
    tasks: &[Task],
    of: usize,
    supply: &MeasuredSupply<'_>,
) -> Option<Verdict> {
    let goes_before =
        |it: &&Task| policy != Policy::FixedPriority || it.priority >= tasks[of].priority;
    let needs: f64 = tasks
        .iter()
        .filter(goes_before)
        .map(Task::utilisation)
        .sum();
    let left = supply.rate();
    (needs > left).then_some(Verdict::Overloads { needs, left })
}

/// Exactly where that is cheap, and else from below by the lengths that were asked.
fn gap(
    policy: Policy,
    tasks: &[Task],
    of: usize,
    supply: &MeasuredSupply<'_>,
    blocking_ns: u64,
    found: Response,
) -> Option<BreakdownGap> {
    let limit_ns = supply.longest_run_ns();
    let jobs = jobs_in(tasks, found.busy_window_ns);
    match jobs.saturating_mul(supply.gaps() as u64) <= EXACT_LOOKS {
        true => breakdown_gap(policy, tasks, of, supply, blocking_ns, limit_ns),
        false => {
            supply.drawn();
            let stepped = supply.stepped();
            breakdown_gap(policy, tasks, of, &stepped, blocking_ns, limit_ns)
        }
    }
}
