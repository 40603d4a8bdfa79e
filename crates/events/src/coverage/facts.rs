//! What is stated about a recording.

use crate::{Options, ProbeStatus, RunFacts, ShareMap, Witnesses};

/// One CPU of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuCoverage {
    /// Its number.
    pub cpu: u32,
    /// First and last reading of the workload's clock, CLOCK_MONOTONIC in nanoseconds; `None` where it never reported.
    pub window_mono_ns: Option<(u64, u64)>,
    /// How long the workload was stopped or held meanwhile, in nanoseconds.
    pub not_measured_ns: u64,
    /// How long the workload looked at nothing meanwhile, at times that are not known; nanoseconds.
    pub unplaced_ns: u64,
}

impl CpuCoverage {
    /// A CPU that has not reported yet.
    pub fn of(cpu: u32) -> CpuCoverage {
        CpuCoverage {
            cpu,
            ..CpuCoverage::default()
        }
    }
}

/// A workload that measures a part of each period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// Length of that part, in nanoseconds.
    pub runtime_ns: u64,
    /// Length of a period, in nanoseconds.
    pub period_ns: u64,
}

impl Pause {
    pub(super) fn of(options: &Options) -> Option<Pause> {
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
    /// As planned, by a limit, or because the user asked for the result.
    InOrder,
    /// By itself, before its time.
    Failed,
    /// Its last record is missing.
    CutOff,
}

/// How many records were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LostRecords {
    /// Those that may have been gaps, wake-ups or vCPUs.
    pub gaps: u64,
    /// Those of who took time, and those that came too late.
    pub names: u64,
}

/// What was watched.
#[derive(Debug, Clone, PartialEq)]
pub struct Watched {
    /// Whether probes were asked for.
    pub traced: bool,
    /// Which events there were.
    pub witnesses: Witnesses,
    /// Whether interrupts may come that no probe reports.
    pub hidden_interrupts: bool,
    /// Whether a hypervisor is below this machine.
    pub has_layer_below: bool,
    /// Of which shares 0 means that nothing was taken.
    pub known: ShareMap<bool>,
    /// Time of KVM that nothing bounds, in nanoseconds: others may have had it.
    pub unbounded_kvm_ns: u64,
    /// How the probes were attached.
    pub probe_statuses: Vec<ProbeStatus>,
}

/// Everything, on bare metal.
impl Default for Watched {
    fn default() -> Watched {
        Watched {
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

impl Watched {
    pub(super) fn of(facts: &RunFacts) -> Watched {
        Watched {
            traced: facts.options.trace,
            witnesses: facts.witnesses,
            hidden_interrupts: facts.has_hidden_interrupts(),
            has_layer_below: facts.layer_below_unwitnessed(),
            probe_statuses: facts.probe_statuses.clone(),
            ..Watched::default()
        }
    }
}

/// How far the clocks can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClockCoverage {
    /// Bound of the error between the clock of gaps and that of the probes, in nanoseconds; `None` where nothing joined them.
    pub bound_ns: Option<u64>,
    /// When the clock went back, in nanoseconds since the begin of the run: nothing later is trusted.
    pub went_back_at_ns: Option<u64>,
    /// How often the clock jumped.
    pub jumps: u64,
    /// Time around its jumps in which no gap has a length, in nanoseconds.
    pub undated_ns: u64,
}

/// What a host's recording adds to its guest's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostRecording {
    /// Records of the host that were lost, or came too late.
    pub lost_names: u64,
    /// Whether interrupts may come to the host that no probe reports.
    pub hidden_interrupts: bool,
    /// How far either clock may be off, in nanoseconds.
    pub clock_bound_ns: u64,
    /// Time of gaps that are too short for the clocks, in nanoseconds.
    pub unsure_ns: u64,
    /// Gaps that the host did not record: the vCPU was elsewhere, or the host's run had not begun or was over.
    pub uncovered_gaps: u64,
    /// Their length, in nanoseconds.
    pub uncovered_ns: u64,
}

/// What is known of the threads of a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandCoverage {
    /// Why nothing was traced, and what would help; `None` where it was.
    pub untraced: Option<String>,
    /// Threads that were seen.
    pub threads: u64,
    /// Threads that were not followed.
    pub unfollowed: u64,
    /// Events that were missed.
    pub missed: u64,
    /// Of these, those that do not say how much is missing.
    pub unbounded: u64,
    /// Whether the kernel counts itself how long threads wait.
    pub kernel_counts_waits: bool,
    /// Time of the threads that is not known for certain, in nanoseconds.
    pub doubt_ns: u64,
    /// Time that a hypervisor took from the threads in excess of steal time.
    pub beyond_steal: HypervisorTime,
}

/// Time that a hypervisor takes in excess of steal time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HypervisorTime {
    /// There is no hypervisor.
    #[default]
    Nothing,
    /// It was not measured.
    Unmeasured,
    /// So many nanoseconds, at the rate that was measured before.
    Measured(u64),
}
