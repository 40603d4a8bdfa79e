//! Reasons why a measuring thread cannot run as requested, with the remedies.

use std::io;

use rustix::thread::CpuSet;
use vmnoise_events::Policy;

/// Text that names the share of a CPU that the kernel lets deadline threads use by default.
const LIMIT: &str = "sched_rt_runtime_us of sched_rt_period_us (/proc/sys/kernel)";

/// Reason why a measuring thread cannot run as requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No CPU was named.
    #[error("no CPU to measure: name at least one")]
    NoCpu,
    /// The kernel refused the affinity (EINVAL: none of the CPUs is online and allowed).
    #[error(
        "cannot pin a thread to CPU {first_cpu}: {}; name CPUs that are online and in this process's cpuset (`taskset -cp $$` lists them)",
        io::Error::from_raw_os_error(*errno)
    )]
    Pin {
        /// First of the requested CPUs.
        first_cpu: u32,
        /// The kernel's error number.
        errno: i32,
    },
    /// The CPU number is larger than the kernel's CPU masks allow.
    #[error(
        "CPU {cpu} is beyond the {} CPUs a mask holds; name an existing CPU",
        CpuSet::MAX_CPU
    )]
    NoSuchCpu {
        /// The requested CPU.
        cpu: u32,
    },
    /// The kernel refused the policy, because the process lacks a right.
    #[error(
        "not allowed to set the scheduling policy {policy:?}: run as root or with CAP_SYS_NICE, or raise RLIMIT_RTPRIO (RLIMIT_NICE for o:); under CONFIG_RT_GROUP_SCHED the thread's cgroup also needs cpu.rt_runtime_us"
    )]
    PolicyRefused {
        /// The requested policy.
        policy: Policy,
    },
    /// The kernel does not know this policy or priority.
    #[error(
        "cannot set the scheduling policy {policy:?}: {}; real-time priorities are 1 to 99, nice values -20 to 19",
        io::Error::from_raw_os_error(*errno)
    )]
    Policy {
        /// The requested policy.
        policy: Policy,
        /// The kernel's error number.
        errno: i32,
    },
    /// The kernel refused SCHED_DEADLINE, because the thread may not run on every CPU of its root
    /// domain.
    #[error(
        "SCHED_DEADLINE is refused to a thread pinned to CPU {cpu} unless that CPU is a cpuset partition of its own; make one as root: {}",
        partition_remedy(*cpu)
    )]
    DeadlineNeedsPartition {
        /// The CPU of the thread.
        cpu: u32,
    },
    /// The requested deadline budget is larger than the budget that is left on the CPU.
    #[error(
        "no room for a budget of {runtime_ns} ns in every {period_ns} ns: all deadline threads of a CPU may use {} of it; ask for less (-P d:RUNTIME:PERIOD)",
        LIMIT
    )]
    DeadlineOverbooked {
        /// Requested budget, in nanoseconds.
        runtime_ns: u64,
        /// Requested period, in nanoseconds.
        period_ns: u64,
    },
    /// A thread could not be started.
    #[error("no thread for CPU {cpu}: {}; see `ulimit -u`", io::Error::from_raw_os_error(*errno))]
    Spawn {
        /// CPU that the thread should have measured.
        cpu: u32,
        /// The kernel's error number.
        errno: i32,
    },
    /// The kernel changed the affinity of a pinned thread.
    #[error(
        "CPU {cpu} went offline or left this process's cpuset: its measuring thread may run elsewhere; what was measured until then stands; see /sys/devices/system/cpu/online and `taskset -cp $$`, and measure CPUs that stay"
    )]
    Unpinned {
        /// The CPU that was measured.
        cpu: u32,
    },
    /// The kernel refused to drop capabilities.
    #[error("a measuring thread cannot give up its capabilities: {}; let this process call capset(2)", io::Error::from_raw_os_error(*errno))]
    Rights {
        /// The kernel's error number.
        errno: i32,
    },
    /// A measuring thread ended without an error, for instance by a panic.
    #[error("the measuring thread of CPU {0} is gone: please report this")]
    Gone(u32),
}

pub(crate) fn policy_error(policy: Policy, error: &io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => Error::PolicyRefused { policy },
        errno => Error::Policy {
            policy,
            errno: errno.unwrap_or(0),
        },
    }
}

/// Returns shell commands that make this CPU a cpuset partition. A polling thread can enter this
/// partition without its process: it is a threaded group below the root group, and vmnoise itself
/// runs in the root group.
fn partition_remedy(cpu: u32) -> String {
    format!(
        "`cd /sys/fs/cgroup && echo $$ > cgroup.procs && echo +cpuset > cgroup.subtree_control && \
         mkdir cpu{cpu} && echo threaded > cpu{cpu}/cgroup.type && \
         echo {cpu} > cpu{cpu}/cpuset.cpus && echo root > cpu{cpu}/cpuset.cpus.partition`, \
         then `osnoise -C=cpu{cpu}` (for microvm leave out cgroup.type, and \
         `echo $$ > cpu{cpu}/cgroup.procs` at the end)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_names_the_cpu_and_the_option() {
        let remedy = partition_remedy(3);
        assert!(remedy.contains("echo 3 > cpu3/cpuset.cpus "), "{remedy}");
        assert!(remedy.contains("-C=cpu3`"), "{remedy}");
    }
}
