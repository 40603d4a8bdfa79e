//! Verdicts on tasks.

use response_time_analysis::fixed_point::SearchFailure;
use vmnoise_events::coverage::{BlindSpot, HiddenKind, Question};

use super::breakdown::{BreakdownGap, breakdown_gap};
use super::task::{PeriodicTask, ScheduleOrder};
use super::{Response, jobs_in, response};
use crate::supply::MeasuredSupply;

/// Required number of windows. If windows were alike and independent, the next one would be worse
/// than all of these with a probability below one percent. A window is as long as a busy window,
/// and as a period, so each job has one.
pub const WINDOWS: u64 = 100;

/// Longest period that counts, in nanoseconds. Jobs that come less often meet windows like those of
/// other jobs, so these need not be farther apart.
const LONGEST_PERIOD_NS: u64 = 1_000_000_000;

/// Expected number of misses of which none is seen in one case of a hundred: the logarithm of 100,
/// for small rates.
const UNSEEN_ONCE_IN_A_HUNDRED: f64 = 4.605;

/// Largest product of jobs in a busy window and gaps for an exact search. Each job takes a pass
/// over all gaps, and the search repeats this some fifty times. Up to this product it takes no
/// noticeable time.
const EXACT_LOOKS: u64 = 1_000_000;

/// Verdict on a task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DeadlineVerdict {
    /// Each of its jobs would have been done in time, whenever it had come.
    Holds,
    /// Some of its jobs might have missed their deadline.
    MayMiss,
    /// In the long run the tasks need more CPU time than was left.
    Overloads {
        /// Part of the time that they need.
        needs: f64,
        /// Part of the time that was left.
        left: f64,
    },
    /// The recording is too short.
    TooShort {
        /// Required length, in nanoseconds; `None` if unknown.
        needs_ns: Option<u64>,
    },
    /// A blind spot of the recording decides.
    Blind,
    /// Too many jobs would have to be examined.
    TooMany,
}

/// Verdict on a task, with its figures.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskVerdict {
    /// Bounds of its response; `None` if there is none within the recording's length.
    pub response: Option<Response>,
    /// Verdict.
    pub verdict: DeadlineVerdict,
    /// Shortest unseen gap that could break its deadline; `None` if the deadline may be missed
    /// without one.
    pub breakdown_gap: Option<BreakdownGap>,
    /// Number of consecutive windows in the recordings, each as long as its busy window and its
    /// period; `None` without a bound.
    pub windows: Option<u64>,
    /// If the task holds: misses that come more often than once in this time would have been seen
    /// with 99 %, in nanoseconds.
    pub excluded_every_ns: Option<u64>,
    /// Blind spots on which the verdict depends.
    pub blind_spots: Vec<BlindSpot>,
}

/// Judges each task of a set. `blocking_ns` is that of [`response`]; `blind_spots` returns the
/// blind spots of the recordings.
pub fn judge(
    policy: ScheduleOrder,
    tasks: &[PeriodicTask],
    supply: &MeasuredSupply<'_>,
    blocking_ns: u64,
    blind_spots: &dyn Fn(Question) -> Vec<BlindSpot>,
) -> Vec<TaskVerdict> {
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
                .partition(|it| it.hides() == HiddenKind::StatedTime);
        let windows = found.as_ref().ok().map(|it| supply.windows(window_ns(it)));
        let verdict = match (&found, windows) {
            (Err(verdict @ DeadlineVerdict::TooShort { .. }), _) => match holds_as_seen() {
                true => DeadlineVerdict::Blind,
                false => *verdict,
            },
            (Err(verdict), _) => *verdict,
            (Ok(found), _) if found.bound_ns > deadline_ns => match holds_as_seen() {
                true => DeadlineVerdict::Blind,
                false => DeadlineVerdict::MayMiss,
            },
            (Ok(_), _) if !hidden.is_empty() => DeadlineVerdict::Blind,
            (Ok(found), Some(windows)) if windows < WINDOWS => DeadlineVerdict::TooShort {
                needs_ns: Some(window_ns(found).saturating_mul(WINDOWS)),
            },
            (Ok(_), _) => DeadlineVerdict::Holds,
        };
        let response = found.ok().filter(|it| it.bound_ns <= deadline_ns);
        let gap = response.and_then(|it| gap(policy, tasks, of, supply, blocking_ns, it));
        let is_bounded = response.is_some();
        let blind_spots = match verdict {
            DeadlineVerdict::Blind if is_bounded => hidden,
            DeadlineVerdict::Blind => [counted, hidden].concat(),
            _ => Vec::new(),
        };
        let holds = found
            .ok()
            .zip(windows)
            .filter(|_| verdict == DeadlineVerdict::Holds);
        TaskVerdict {
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

/// Returns why no bound was found.
fn unbounded(failure: SearchFailure) -> DeadlineVerdict {
    match failure {
        SearchFailure::DivergenceLimitExceeded { .. } => {
            DeadlineVerdict::TooShort { needs_ns: None }
        }
        SearchFailure::AssumptionViolated => DeadlineVerdict::TooMany,
    }
}

/// Returns a verdict if a task, and the tasks that go before it, need more than was left.
fn overload(
    policy: ScheduleOrder,
    tasks: &[PeriodicTask],
    of: usize,
    supply: &MeasuredSupply<'_>,
) -> Option<DeadlineVerdict> {
    let goes_before = |it: &&PeriodicTask| {
        policy != ScheduleOrder::FixedPriority || it.priority >= tasks[of].priority
    };
    let needs: f64 = tasks
        .iter()
        .filter(goes_before)
        .map(PeriodicTask::utilisation)
        .sum();
    let left = supply.rate();
    (needs > left).then_some(DeadlineVerdict::Overloads { needs, left })
}

/// Returns the breakdown gap: exact if that is cheap, otherwise a lower bound from the requested
/// lengths.
fn gap(
    policy: ScheduleOrder,
    tasks: &[PeriodicTask],
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
