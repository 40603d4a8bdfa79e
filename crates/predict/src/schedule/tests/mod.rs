//! Compares the analyses with textbooks, with verified analyses, and with simulated jobs.

mod engine;
mod judged;
mod played;
mod textbook;
mod unbounded;

use std::rc::Rc;

use response_time_analysis::arrival::Sporadic;
use response_time_analysis::time::Duration;

use super::{PeriodicTask, Preemption};

/// Returns a task with the four values that textbooks give.
fn task(cost_ns: u64, period_ns: u64, deadline_ns: u64, priority: u32) -> PeriodicTask {
    PeriodicTask {
        name: format!("of {period_ns}"),
        cost_ns,
        arrivals: Rc::new(Sporadic::new_zero_jitter(Duration::from(period_ns))),
        period_ns,
        deadline_ns,
        priority,
        preemption: Preemption::Full,
    }
}
