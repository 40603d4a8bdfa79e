//! Scheduling policies of threads.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::human;

/// Scheduling policy of a thread. Examples are in rtla's notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// SCHED_OTHER with this nice value (`o:0`).
    Other(i32),
    /// SCHED_FIFO with this priority (`f:50`).
    Fifo(i32),
    /// SCHED_RR with this priority (`r:10`).
    RoundRobin(i32),
    /// SCHED_DEADLINE (`d:10ms:100ms`): a CPU time budget in every period. The period is also the
    /// deadline.
    Deadline {
        /// CPU time budget in each period, in nanoseconds.
        runtime_ns: u64,
        /// Length of a period, in nanoseconds.
        period_ns: u64,
    },
}

impl Policy {
    /// Returns whether some work can delay a thread of policy `task` but not a thread of this
    /// policy. Such work goes before the task but not before this thread. Among threads of equal
    /// priority, the running thread delays the others.
    pub const fn is_spared_what_delays(self, task: Policy) -> bool {
        match (self, task) {
            (Policy::Deadline { .. }, _)
            | (Policy::Fifo(_) | Policy::RoundRobin(_), Policy::Other(_)) => true,
            (
                Policy::Fifo(own) | Policy::RoundRobin(own),
                Policy::Fifo(its) | Policy::RoundRobin(its),
            ) => own >= its,
            (Policy::Other(own), Policy::Other(its)) => own < its,
            (_, Policy::Deadline { .. })
            | (Policy::Other(_), Policy::Fifo(_) | Policy::RoundRobin(_)) => false,
        }
    }

    /// Returns the policy in rtla's notation: `o:0`, `f:50`, `r:10`, `d:10000000:100000000`
    /// (nanoseconds).
    pub fn letters(self) -> String {
        match self {
            Policy::Other(nice) => format!("o:{nice}"),
            Policy::Fifo(priority) => format!("f:{priority}"),
            Policy::RoundRobin(priority) => format!("r:{priority}"),
            Policy::Deadline {
                runtime_ns,
                period_ns,
            } => format!("d:{runtime_ns}:{period_ns}"),
        }
    }

    /// Parses the output of [`Policy::letters`]; returns `None` for any other text.
    pub fn from_letters(letters: &str) -> Option<Policy> {
        let (letter, number) = letters.split_once(':')?;
        Some(match letter {
            "o" => Policy::Other(number.parse().ok()?),
            "f" => Policy::Fifo(number.parse().ok()?),
            "r" => Policy::RoundRobin(number.parse().ok()?),
            "d" => {
                let (runtime_ns, period_ns) = number.split_once(':')?;
                Policy::Deadline {
                    runtime_ns: runtime_ns.parse().ok()?,
                    period_ns: period_ns.parse().ok()?,
                }
            }
            _ => return None,
        })
    }

    /// Returns the command-line option that makes all work that delays a thread of this policy also
    /// delay the recorder.
    pub fn option_behind(self) -> String {
        match self {
            Policy::Deadline { .. } => "-P f:1".into(),
            Policy::Fifo(priority) | Policy::RoundRobin(priority) if priority > 1 => {
                format!("-P f:{}", priority - 1)
            }
            Policy::Fifo(_) | Policy::RoundRobin(_) => "-P o:0".into(),
            Policy::Other(nice) => format!("-P o:{nice}"),
        }
    }
}

/// Uses the names of chrt(1).
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Other(nice) => write!(f, "SCHED_OTHER, nice {nice}"),
            Policy::Fifo(priority) => write!(f, "SCHED_FIFO {priority}"),
            Policy::RoundRobin(priority) => write!(f, "SCHED_RR {priority}"),
            Policy::Deadline {
                runtime_ns,
                period_ns,
            } => write!(
                f,
                "SCHED_DEADLINE, {} of every {}",
                human(*runtime_ns),
                human(*period_ns)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Policy = Policy::Deadline {
        runtime_ns: 1,
        period_ns: 2,
    };

    /// Work of some priority delays the task but not the recorder if it goes before the task but
    /// not before the recorder.
    #[test]
    fn a_recorder_is_spared_what_comes_between_it_and_the_task() {
        for (recorder, task, is_spared) in [
            (Policy::Fifo(99), Policy::Fifo(10), true),
            (Policy::Fifo(10), Policy::RoundRobin(10), true),
            (Policy::Fifo(9), Policy::Fifo(10), false),
            (Policy::Fifo(1), DEADLINE, false),
            (DEADLINE, DEADLINE, true),
            (Policy::Fifo(1), Policy::Other(0), true),
            (Policy::Other(0), Policy::Other(0), false),
            (Policy::Other(-5), Policy::Other(0), true),
            (Policy::Other(-20), Policy::Fifo(1), false),
        ] {
            assert_eq!(
                recorder.is_spared_what_delays(task),
                is_spared,
                "{recorder} and {task}"
            );
        }
    }

    #[test]
    fn letters_are_read_as_they_are_written() {
        for policy in [
            Policy::Other(-5),
            Policy::Fifo(50),
            Policy::RoundRobin(1),
            DEADLINE,
        ] {
            assert_eq!(Policy::from_letters(&policy.letters()), Some(policy));
        }
        for wrong in ["", "f", "f:x", "x:1", "d:1"] {
            assert_eq!(Policy::from_letters(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_recorder_with_the_option_is_spared_nothing() {
        for (task, option, policy) in [
            (Policy::Fifo(10), "-P f:9", Policy::Fifo(9)),
            (Policy::RoundRobin(1), "-P o:0", Policy::Other(0)),
            (DEADLINE, "-P f:1", Policy::Fifo(1)),
            (Policy::Other(3), "-P o:3", Policy::Other(3)),
        ] {
            assert_eq!(task.option_behind(), option);
            assert!(!policy.is_spared_what_delays(task), "{task}");
        }
    }
}
