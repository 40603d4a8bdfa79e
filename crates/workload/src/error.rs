//! Errors of workloads: reasons why a workload cannot be prepared or ended early, with the
//! remedies.

use crate::cgroup::Error as CgroupError;
use crate::microvm::Error as MicrovmError;
use crate::thread::Error as ThreadError;

/// Reason why this machine does not run a workload, or why one of its threads ended early.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The runtime is 0, or longer than the period.
    #[error(
        "cannot poll {runtime_tsc} cycles of every {period_tsc}: a runtime is at least 1 and at most its period"
    )]
    Runtime {
        /// Number of TSC cycles to poll in each period.
        runtime_tsc: u64,
        /// Duration of a period, in TSC cycles.
        period_tsc: u64,
    },
    /// The kernel moved a thread to a CPU outside the thread's affinity.
    #[error(
        "CPU {cpu} went offline or left this process's cpuset: its {thread} was moved to CPU {now_on}; what was measured until then stands; see /sys/devices/system/cpu/online and `taskset -cp $$`, and measure CPUs that stay"
    )]
    Moved {
        /// The CPU that was measured.
        cpu: u32,
        /// Kind of the thread that measured this CPU.
        thread: &'static str,
        /// CPU on which the thread ran after the move.
        now_on: u32,
    },
    /// The control group refused a thread.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// A thread could not be started, could not be pinned, could not get its policy, or died.
    #[error(transparent)]
    Thread(#[from] ThreadError),
    /// The microVM could not be created, or ended early.
    #[error(transparent)]
    Microvm(#[from] MicrovmError),
}
