//! What keeps the polling threads from running, each with its remedy.

use crate::{cgroup, thread};

/// Why this machine does not run the polling threads, or why one ended early.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No CPU was named.
    #[error("no CPU to measure: name at least one")]
    NoCpu,
    /// Nothing would be polled, or more than there is.
    #[error(
        "cannot poll {runtime_tsc} cycles of every {period_tsc}: a runtime is at least 1 and at most its period"
    )]
    Runtime {
        /// Cycles to poll in each period.
        runtime_tsc: u64,
        /// Length of a period.
        period_tsc: u64,
    },
    /// The kernel moved the thread to another CPU, against its affinity.
    #[error(
        "CPU {cpu} went offline or left this process's cpuset: its polling thread was moved to CPU {now_on}; what was measured until then stands; see /sys/devices/system/cpu/online and `taskset -cp $$`, and measure CPUs that stay"
    )]
    Moved {
        /// The CPU that was measured.
        cpu: u32,
        /// Where the thread found itself.
        now_on: u32,
    },
    /// The control group refused the thread.
    #[error(transparent)]
    Cgroup(#[from] cgroup::Error),
    /// The thread could not be started, pinned or given its policy, or died.
    #[error(transparent)]
    Thread(#[from] thread::Error),
}
