//! Facts about a recording that decide which blind spots the recording has.

use crate::{ProbeStatus, RunFacts, RunOptions, ShareMap, Witnesses};

/// Measured time of one CPU of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuCoverage {
    /// Number of the CPU.
    pub cpu: u32,
    /// Times of the first and the last reading of the workload's clock, CLOCK_MONOTONIC in
    /// nanoseconds; `None` if the CPU never reported.
    pub window_mono_ns: Option<(u64, u64)>,
    /// Time in `window_mono_ns` in which a signal or a debugger had stopped the workload, in
    /// nanoseconds.
    pub not_measured_ns: u64,
    /// Time in `window_mono_ns` in which the workload observed nothing, in nanoseconds. The
    /// instants of this time are unknown.
    pub unplaced_ns: u64,
}

impl CpuCoverage {
    /// Returns the facts about a CPU that has not reported yet.
    pub fn of(cpu: u32) -> CpuCoverage {
        CpuCoverage {
            cpu,
            ..CpuCoverage::default()
        }
    }
}

/// A workload that measures only a part of each period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// Length of the measured part, in nanoseconds.
    pub runtime_ns: u64,
    /// Length of a period, in nanoseconds.
    pub period_ns: u64,
}

impl Pause {
    pub(super) fn of(options: &RunOptions) -> Option<Pause> {
        let runtime_ns = options.runtime_ns.filter(|_| options.pauses())?;
        let period_ns = options.period_ns;
        Some(Pause {
            runtime_ns,
            period_ns,
        })
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// The run ended as planned, at a limit, or because the user asked for the result.
    InOrder,
    /// The workload ended by itself, too early.
    Failed,
    /// The last record of the run is missing.
    CutOff,
}

/// Numbers of lost records of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LostRecords {
    /// Number of lost records that may have been gaps, wake-ups or vCPUs.
    pub gaps: u64,
    /// Number of lost or late records that name who took time.
    pub names: u64,
}

/// Events and layers that a recording watched.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchedClasses {
    /// Whether the user requested probes.
    pub traced: bool,
    /// Events that the probes could see.
    pub witnesses: Witnesses,
    /// Whether this machine may get interrupts that no probe reports.
    pub hidden_interrupts: bool,
    /// Whether a hypervisor is below this machine.
    pub has_layer_below: bool,
    /// For each share, whether a value of 0 is a measurement. If `false`, a value of 0 means
    /// unknown.
    pub known: ShareMap<bool>,
    /// Part of the share `kvm` for which no upper bound is known, in nanoseconds. Other activities
    /// may have had this time.
    pub unbounded_kvm_ns: u64,
    /// Status of each probe.
    pub probe_statuses: Vec<ProbeStatus>,
}

/// Returns the facts of a run on bare metal in which the probes saw every event.
impl Default for WatchedClasses {
    fn default() -> WatchedClasses {
        WatchedClasses {
            traced: true,
            witnesses: Witnesses::OF_EXITS,
            hidden_interrupts: false,
            has_layer_below: false,
            known: ShareMap::from_fn(|_| true),
            unbounded_kvm_ns: 0,
            probe_statuses: Vec::new(),
        }
    }
}

impl WatchedClasses {
    pub(super) fn of(facts: &RunFacts) -> WatchedClasses {
        WatchedClasses {
            traced: facts.options.trace,
            witnesses: facts.witnesses,
            hidden_interrupts: facts.has_hidden_interrupts(),
            has_layer_below: facts.layer_below_unwitnessed(),
            probe_statuses: facts.probe_statuses.clone(),
            ..WatchedClasses::default()
        }
    }
}

/// Facts about the errors and jumps of the clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClockCoverage {
    /// Maximum error between the clock of gaps and the clock of probes, in nanoseconds; `None` if
    /// no anchor relates the two clocks.
    pub bound_ns: Option<u64>,
    /// Time at which the clock went back, in nanoseconds since the start of the run; `None` if the
    /// clock never went back. Later times are not trusted.
    pub went_back_at_ns: Option<u64>,
    /// Number of jumps of the clock.
    pub jumps: u64,
    /// Time around the jumps in which gaps have no known length, in nanoseconds.
    pub undated_ns: u64,
}

/// Facts that the host's recording adds to the recording of its guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostRecording {
    /// Number of records of the host that were lost or came too late.
    pub lost_names: u64,
    /// Whether the host may get interrupts that no probe reports.
    pub hidden_interrupts: bool,
    /// Maximum error of the host's clock and of the guest's clock, in nanoseconds.
    pub clock_bound_ns: u64,
    /// Total length of the gaps that are shorter than the clock error, in nanoseconds.
    pub unsure_ns: u64,
    /// Number of gaps for which the host recorded nothing. The vCPU ran on another host, or the gap
    /// lies outside the host's run.
    pub uncovered_gaps: u64,
    /// Total length of the gaps for which the host recorded nothing, in nanoseconds.
    pub uncovered_ns: u64,
}

/// Facts about the threads of a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandCoverage {
    /// Reason why no thread was traced, and the remedy; `None` if the threads were traced.
    pub untraced: Option<String>,
    /// Number of threads that were seen.
    pub threads: u64,
    /// Number of threads that were not followed.
    pub unfollowed: u64,
    /// Number of missed events.
    pub missed: u64,
    /// Number of missed events for which the error in the times has no upper bound.
    pub unbounded: u64,
    /// Whether the kernel itself counts the run delay of threads.
    pub kernel_counts_waits: bool,
    /// Time of the threads whose use is uncertain, in nanoseconds.
    pub doubt_ns: u64,
    /// Time that a hypervisor took from the threads in addition to steal time.
    pub beyond_steal: HypervisorTime,
    /// Preflight that is too short for a bound of the longest piece; `None` if it was long enough, or
    /// if there was none.
    pub short_preflight: Option<ShortPreflight>,
}

/// Time that a hypervisor takes in addition to steal time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HypervisorTime {
    /// No hypervisor is below this machine.
    #[default]
    Nothing,
    /// The time was not measured.
    Unmeasured,
    /// Upper bound in nanoseconds, with 95 % confidence, from a measurement before the command ran.
    Measured(u64),
}

/// Preflight that is too short to bound the longest time that a hypervisor takes without a break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShortPreflight {
    /// Time for which each CPU was polled for gaps, in nanoseconds.
    pub polled_ns: u64,
    /// Time that would have been long enough, in nanoseconds.
    pub needed_ns: u64,
}
