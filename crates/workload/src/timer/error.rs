//! What keeps the periodic tasks from running, each with its remedy.

use crate::{cgroup, thread};

/// Why this machine does not run the periodic tasks, or why one ended early.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No CPU was named.
    #[error("no CPU to measure: name at least one")]
    NoCpu,
    /// The kernel moved the task to another CPU, against its affinity.
    #[error(
        "CPU {cpu} went offline or left this process's cpuset: its task was moved to CPU {now_on}; what was measured until then stands; see /sys/devices/system/cpu/online and `taskset -cp $$`, and measure CPUs that stay"
    )]
    Moved {
        /// The CPU that was measured.
        cpu: u32,
        /// Where the task found itself.
        now_on: u32,
    },
    /// The control group refused the task.
    #[error(transparent)]
    Cgroup(#[from] cgroup::Error),
    /// The task could not be started, pinned or given its policy, or died.
    #[error(transparent)]
    Thread(#[from] thread::Error),
}
