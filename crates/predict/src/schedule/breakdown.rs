//! The one unseen gap that would break a task.

use response_time_analysis::supply::SupplyBound;

use super::response;
use super::task::{Policy, Task};

/// The shortest gap besides all that was seen with which a job of this task may miss its deadline,
/// nanoseconds; `None` if it may without one. A gap takes no more than its length from any window,
/// so it counts as a blocking of that length.
pub fn breakdown_gap_ns(
    policy: Policy,
    tasks: &[Task],
    of: usize,
    supply: &dyn SupplyBound,
    blocking_ns: u64,
    limit_ns: u64,
) -> Option<u64> {
    let deadline_ns = tasks[of].deadline_ns;
    let holds = |gap_ns: u64| {
        let blocking_ns = blocking_ns.saturating_add(gap_ns);
        response(policy, tasks, of, supply, blocking_ns, limit_ns)
            .is_ok_and(|it| it.bound_ns <= deadline_ns)
    };
    if !holds(0) {
        return None;
    }
    // A job that waits for its whole deadline is not done by then.
    let (mut holds_ns, mut breaks_ns) = (0, deadline_ns);
    while breaks_ns - holds_ns > 1 {
        let middle_ns = holds_ns + (breaks_ns - holds_ns) / 2;
        match holds(middle_ns) {
            true => holds_ns = middle_ns,
            false => breaks_ns = middle_ns,
        }
    }
    Some(breaks_ns)
}
