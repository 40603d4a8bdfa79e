//! What may be said of each task.

use super::breakdown::breakdown_gap_ns;
use super::task::{Policy, Task};
use super::{Response, response};
use crate::supply::MeasuredSupply;

/// Were windows alike and independent, the next one would be worse than all of so many with less than
/// one percent.
pub const WINDOWS: u64 = 100;

/// Gaps up to which each length is exact at no noticeable price.
const EXACT_GAPS: usize = 20_000;

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
    /// Gaps were lost: more may have been taken than was seen.
    Lost,
}

/// A task, judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// What of it is bounded; `None` if nothing is, within the recording's length.
    pub response: Option<Response>,
    /// Whether it keeps its deadline.
    pub verdict: Verdict,
    /// The shortest gap that nobody saw with which it might not, nanoseconds; `None` where it may not
    /// already.
    pub breakdown_gap_ns: Option<u64>,
    /// How many busy windows follow one another in what was recorded; `None` without a bound.
    pub windows: Option<u64>,
}

/// Judges each task of a set. `blocking_ns` as in [`response`]; `lost_gaps`: whether gaps were lost.
pub fn judge(
    policy: Policy,
    tasks: &[Task],
    supply: &MeasuredSupply<'_>,
    blocking_ns: u64,
    lost_gaps: bool,
) -> Vec<Judged> {
    let limit_ns = supply.longest_run_ns();
    let of = |of: usize| {
        let found = response(policy, tasks, of, supply, blocking_ns, limit_ns).ok();
        let windows = found.map(|it| supply.span_ns() / it.busy_window_ns.max(1));
        let deadline_ns = tasks[of].deadline_ns;
        let verdict = match (found, windows) {
            (Some(found), _) if found.bound_ns > deadline_ns => Verdict::MayMiss,
            (Some(_), _) if lost_gaps => Verdict::Lost,
            (Some(found), Some(windows)) if windows < WINDOWS => Verdict::TooShort {
                needs_ns: Some(found.busy_window_ns.saturating_mul(WINDOWS)),
            },
            (Some(_), _) => Verdict::Holds,
            (None, _) => unbounded(policy, tasks, of, supply),
        };
        Judged {
            response: found,
            verdict,
            breakdown_gap_ns: found.and_then(|_| gap_ns(policy, tasks, of, supply, blocking_ns)),
            windows,
        }
    };
    (0..tasks.len()).map(of).collect()
}

/// Why no busy window ends within the recording.
fn unbounded(policy: Policy, tasks: &[Task], of: usize, supply: &MeasuredSupply<'_>) -> Verdict {
    let goes_before =
        |it: &&Task| policy != Policy::FixedPriority || it.priority >= tasks[of].priority;
    let needs: f64 = tasks
        .iter()
        .filter(goes_before)
        .map(Task::utilisation)
        .sum();
    let left = supply.rate();
    match needs > left {
        true => Verdict::Overloads { needs, left },
        false => Verdict::TooShort { needs_ns: None },
    }
}

/// Exactly where that is cheap, and else from below by the lengths that were asked.
fn gap_ns(
    policy: Policy,
    tasks: &[Task],
    of: usize,
    supply: &MeasuredSupply<'_>,
    blocking_ns: u64,
) -> Option<u64> {
    let limit_ns = supply.longest_run_ns();
    match supply.gaps() <= EXACT_GAPS {
        true => breakdown_gap_ns(policy, tasks, of, supply, blocking_ns, limit_ns),
        false => breakdown_gap_ns(policy, tasks, of, &supply.stepped(), blocking_ns, limit_ns),
    }
}
