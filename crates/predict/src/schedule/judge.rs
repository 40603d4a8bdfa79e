//! Verdicts on whether tasks meet their deadlines.

use vmnoise_events::coverage::{BlindSpot, HiddenKind, Question};

use super::breakdown::{BreakdownGap, breakdown_gap};
use super::task::{PeriodicTask, ScheduleOrder};
use super::unbounded::{ManyJobs, UnboundedResponse};
use super::{Response, jobs_in, response};
use crate::supply::MeasuredSupply;

/// Required number of windows in a recording. If windows were alike and independent, the next
/// window would be worse than all of these with a probability below one percent. A window is as
/// long as the busy window or the period of the task, whichever is longer. So each job has a window
/// of its own.
pub const WINDOWS: u64 = 100;

/// Longest period that lengthens a window, in nanoseconds. Rare jobs meet the same kind of windows
/// as frequent jobs, so their windows need not be longer.
const LONGEST_PERIOD_NS: u64 = 1_000_000_000;

/// Expected number of misses at which no miss occurs in one of a hundred cases. For small rates, it
/// is the natural logarithm of 100.
const UNSEEN_ONCE_IN_A_HUNDRED: f64 = 4.605;

/// Largest product of the jobs in a busy window and the gaps for which the breakdown gap is
/// searched exactly. Each job needs a pass over all gaps, and the search repeats this about fifty
/// times. Up to this product, the search takes no noticeable time.
const EXACT_LOOKS: u64 = 1_000_000;

/// Verdict on whether a task meets its deadlines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DeadlineVerdict {
    /// Each job of the task would have ended by its deadline, at whatever time it had arrived.
    Holds,
    /// Some job of the task might have missed its deadline.
    MayMiss,
    /// In the long run, the task and the tasks that go before it need more CPU time than was left.
    Overloads {
        /// Fraction of the time that these tasks need.
        needs: f64,
        /// Fraction of the time that was left for tasks.
        left: f64,
    },
    /// The recording is too short for a verdict.
    TooShort {
        /// Required duration of the recording, in nanoseconds; `None` if unknown.
        needs_ns: Option<u64>,
    },
    /// The verdict depends on a fact that the recording could not see, or the recorded data are
    /// unusable.
    Blind,
    /// The analysis would have to examine too many jobs.
    TooMany(ManyJobs),
}

/// Verdict on a task, with the figures behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskVerdict {
    /// Bounds of the task's response time; `None` if there is no bound within the recording's
    /// duration.
    pub response: Option<Response>,
    /// Verdict on the task's deadlines.
    pub verdict: DeadlineVerdict,
    /// Shortest additional gap that could make the task miss its deadline; `None` if the task may
    /// miss its deadline without an additional gap.
    pub breakdown_gap: Option<BreakdownGap>,
    /// Number of consecutive windows that fit in the recordings, each as long as the task's busy
    /// window or period, whichever is longer; `None` without a bound.
    pub windows: Option<u64>,
    /// Mean time between misses that the recording excludes, in nanoseconds. If misses came more
    /// often, the recording would show at least one with a probability of 99 %. `None` if the
    /// verdict is not [`DeadlineVerdict::Holds`].
    pub excluded_every_ns: Option<u64>,
    /// Blind spots of the recordings on which the verdict depends.
    pub blind_spots: Vec<BlindSpot>,
}

/// Returns a verdict on each task of a set. For `blocking_ns` see [`response`]. `blind_spots`
/// returns the blind spots of the recordings for a question.
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
        let (unusable, usable): (Vec<_>, Vec<_>) =
            blind_spots(Question::TakenFrom(tasks[of].scheduled(policy)))
                .into_iter()
                .partition(BlindSpot::makes_data_unusable);
        let (counted, hidden): (Vec<_>, Vec<_>) = usable
            .into_iter()
            .partition(|it| it.hides() == HiddenKind::StatedTime);
        let windows = found.as_ref().ok().map(|it| supply.windows(window_ns(it)));
        let verdict = match (&found, windows) {
            // A miss despite hidden time is a miss. A miss in unusable data proves nothing.
            _ if !unusable.is_empty() => DeadlineVerdict::Blind,
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
            DeadlineVerdict::Blind if is_bounded => [unusable, hidden].concat(),
            DeadlineVerdict::Blind if !unusable.is_empty() => unusable,
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

/// Returns the verdict for a task whose response time has no bound.
fn unbounded(reason: UnboundedResponse) -> DeadlineVerdict {
    match reason {
        UnboundedResponse::AboveLimit => DeadlineVerdict::TooShort { needs_ns: None },
        UnboundedResponse::TooMany(jobs) => DeadlineVerdict::TooMany(jobs),
    }
}

/// Returns a verdict if a task and the tasks that go before it need more time than was left.
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

/// Returns the breakdown gap. If an exact search is too expensive, the result is a lower bound from
/// a fixed set of window lengths.
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
