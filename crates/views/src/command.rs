//! Results of one run of a command.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use serde::Serialize;
use vmnoise_events::FamilyLook;

/// Measurements of a run, from the source that was available.
#[derive(Debug)]
pub enum RunEvidence {
    /// BPF followed all scheduling events of the command's threads.
    Traced {
        /// Sums of these events.
        look: Box<FamilyLook>,
        /// Whether steal time is visible, or there is no hypervisor.
        sees_steal: bool,
        /// Whether NMIs are seen.
        sees_nmi: bool,
    },
    /// BPF was not available, so /proc was read.
    Read {
        /// Reason why BPF was not available, and the remedy.
        why: String,
        /// Sums from /proc.
        found: FromProc,
    },
}

/// Result of one run of the command.
#[derive(Debug)]
pub struct CommandRun {
    /// Exit status of the command.
    pub ended: ProcessEnd,
    /// Wall-clock time of the run.
    pub wall_ns: u64,
    /// Measured time and its source.
    pub seen: RunEvidence,
    /// Work rate of the command's threads while they had a CPU, or why it is unknown.
    pub rate: Result<RunRate, String>,
}

/// Exit status of a command that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessEnd(ExitStatus);

impl From<ExitStatus> for ProcessEnd {
    fn from(status: ExitStatus) -> ProcessEnd {
        ProcessEnd(status)
    }
}

impl ProcessEnd {
    /// Returns the status as a shell does: the exit status, or 128 plus the signal's number.
    pub fn code(self) -> u8 {
        let code = self.0.code().or_else(|| Some(128 + self.0.signal()?));
        code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
    }
}

/// Sums over the threads of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FromProc {
    /// Number of threads seen.
    pub threads: u64,
    /// Whether the command was a single thread without children.
    pub is_alone: bool,
    /// Time the threads ran, in ns.
    pub ran_ns: u64,
    /// Time the threads waited for a CPU, in ns; threads of the command may have waited for each
    /// other.
    pub waited_ns: u64,
    /// Number of involuntary context switches.
    pub preemptions: u64,
    /// Steal time of all CPUs of this machine meanwhile, in ns, in steps of 10 ms; `None` if the
    /// hypervisor does not report steal time.
    pub machine_steal_ns: Option<u64>,
    /// Time for which a CPU quota throttled the command's control group or one above it, in ns. The
    /// time is a sum over CPUs and includes all other tasks of the group. `None` without a quota.
    pub throttled_ns: Option<u64>,
}

/// Work rate of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunRate {
    /// Instructions per cycle. A busy sibling thread, and shared caches and memory, lower it.
    /// Different work changes it too, so compare only runs of the same command.
    pub instructions_per_cycle: Option<f64>,
    /// Cycles per cycle of the TSC; `None` if this CPU does not count reference cycles.
    pub frequency: Option<f64>,
    /// Largest frequency of any window; `None` with fewer than two windows.
    pub best_frequency: Option<f64>,
    /// Work lost compared with the largest frequency, in percent; gaps are not counted.
    pub lost_percent: Option<f64>,
    /// Part of the threads' CPU time in which the counters ran, in percent.
    pub counted_percent: Option<f64>,
    /// Whether only user code was counted, because the rights for kernel code were missing.
    pub own_code: bool,
}

/// Time that was taken from one CPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QuietCpu {
    /// Number of the CPU.
    pub cpu: u32,
    /// Time for which the CPU was polled for gaps, in ns; `None` if unknown.
    pub polled_ns: Option<u64>,
    /// Time taken, in percent of the time polled.
    pub noise_percent: Option<f64>,
    /// The longest gap, in ns.
    pub max_gap_ns: Option<u64>,
    /// Culprit that took most time.
    pub most_by: Option<String>,
    /// Time that the hypervisor took in addition to steal time, or the hardware took (the share
    /// `hv_or_hw`), in percent of the time polled; `None` if unknown.
    pub beyond_steal_percent: Option<f64>,
    /// Work lost compared with the rate of the fastest millisecond, in percent; gaps are not
    /// counted.
    pub rate_lost_percent: Option<f64>,
}
