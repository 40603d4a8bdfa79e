//! Shortest additional gap that would make a task miss its deadline.

use response_time_analysis::supply::SupplyBound;

use super::response;
use super::task::{PeriodicTask, ScheduleOrder};

/// A gap in addition to all observed gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakdownGap {
    /// Length of the gap, in nanoseconds. With any shorter additional gap, no job misses its
    /// deadline.
    pub ns: u64,
    /// Whether the effect of longer gaps is unknown, because the recording is too short.
    pub is_at_least: bool,
}

/// Returns the shortest additional gap with which a job of this task may miss its deadline. Returns
/// `None` if a job may miss its deadline without an additional gap. A gap takes at most its length
/// from any window, so the analysis treats the gap as a blocking of that length.
pub fn breakdown_gap(
    policy: ScheduleOrder,
    tasks: &[PeriodicTask],
    of: usize,
    supply: &dyn SupplyBound,
    blocking_ns: u64,
    limit_ns: u64,
) -> Option<BreakdownGap> {
    let deadline_ns = tasks[of].deadline_ns;
    let bound_ns = |gap_ns: u64| {
        let blocking_ns = blocking_ns.saturating_add(gap_ns);
        let found = response(policy, tasks, of, supply, blocking_ns, limit_ns);
        found.ok().map(|it| it.bound_ns)
    };
    let holds = |gap_ns: u64| bound_ns(gap_ns).is_some_and(|it| it <= deadline_ns);
    if !holds(0) {
        return None;
    }
    // A job that waits as long as its whole deadline is late.
    let (mut holds_ns, mut breaks_ns) = (0, deadline_ns);
    while breaks_ns - holds_ns > 1 {
        let middle_ns = holds_ns + (breaks_ns - holds_ns) / 2;
        match holds(middle_ns) {
            true => holds_ns = middle_ns,
            false => breaks_ns = middle_ns,
        }
    }
    Some(BreakdownGap {
        ns: breaks_ns,
        is_at_least: breaks_ns < deadline_ns && bound_ns(breaks_ns).is_none(),
    })
}
