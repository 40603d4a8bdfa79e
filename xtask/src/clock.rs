//! Measures the elapsed time and the CPU time of a step of the gate.

use std::fs;
use std::ops::AddAssign;
use std::time::{Duration, Instant};

/// Clock ticks per second in /proc (proc_pid_stat(5)). USER_HZ is 100 on every architecture for
/// which vmnoise is built.
const TICKS: u64 = 100;

/// Time that a step of the gate took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Elapsed time of the step.
    pub wall: Duration,
    /// CPU time of the child processes that ended during the step and were waited for. Includes the
    /// time of their own children.
    pub cpu: Duration,
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Spent) {
        self.wall += other.wall;
        self.cpu += other.cpu;
    }
}

/// A step of the gate that has begun.
#[derive(Debug)]
pub struct Step {
    begun: Instant,
    cpu: Duration,
}

impl Step {
    pub fn begin() -> Step {
        Step {
            begun: Instant::now(),
            cpu: cpu_of_children(),
        }
    }

    pub fn spent(&self) -> Spent {
        Spent {
            wall: self.begun.elapsed(),
            cpu: cpu_of_children().saturating_sub(self.cpu),
        }
    }
}

/// Returns the CPU time of all children of this process that were waited for. Includes the time of
/// their own children.
fn cpu_of_children() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    ticks_of_children(&stat).map_or(Duration::ZERO, |ticks| {
        Duration::from_millis(ticks * 1000 / TICKS)
    })
}

/// Returns the sum of the fields cutime and cstime of /proc/self/stat, in clock ticks.
fn ticks_of_children(stat: &str) -> Option<u64> {
    let fields = stat.rsplit_once(") ")?.1;
    // The state follows the name and is field 3; cutime is field 16.
    let mut fields = fields.split(' ').skip(13);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_children_is_behind_a_name_with_spaces() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 0 0 0 0 0 1 2 30 4 20 0 1";
        assert_eq!(ticks_of_children(stat), Some(34));
    }
}
