//! Result of a run, schema `vmnoise.summary/1`: the JSON document without the head that the program
//! adds. An unknown value is `None` (null in JSON). It is never 0, and its key is never absent.

use serde::Serialize;
use vmnoise_events::coverage::Coverage;
use vmnoise_events::{FinishReason, ProbeStatus, ShareMap};

use crate::feed::{CpuFromFeed, FeedSummary};
use crate::guest_columns::GuestColumns;
use crate::interference::InterferenceColumns;
use crate::losses::Losses;
use crate::named::{NamedInterval, SourceSummary};
use crate::periodic::FoldCell;
use crate::wakeups::WakeupSummary;

/// Result of a whole run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// One entry for each CPU, ascending.
    pub cpus: Vec<CpuSummary>,
    /// Time from which every `at_ns` counts, in nanoseconds of CLOCK_MONOTONIC. This is the first
    /// reading of a workload. If the first gap or wake-up starts earlier, or if no reading has a
    /// known time, it is the start of that gap or wake-up. `None` without readings, gaps and
    /// wake-ups.
    #[serde(skip)]
    pub origin_mono_ns: Option<u64>,
    /// The longest gaps over all CPUs, longest first. The option `--top` sets their number.
    pub worst: Vec<NamedInterval>,
    /// The earliest gap that reached the `--stop` limit; `None` if no gap reached it.
    pub stopped_by: Option<NamedInterval>,
    /// Coverage of the run.
    #[serde(rename = "blind_spots")]
    pub coverage: Coverage,
    /// Number of lost records, the sum of `losses`.
    pub lost_events: u64,
    /// Lost records by kind.
    pub losses: Losses,
    /// Number of activities that arrived too late, after a watermark beyond their end, and of gaps
    /// that arrived after their activities had been forgotten. Activities that are too late explain
    /// nothing.
    pub late_events: u64,
    /// Maximum error between the clock of gaps and the clock of activities, in nanoseconds; `None`
    /// if no anchor relates the two clocks.
    pub clock_bound_ns: Option<u64>,
    /// Number of clock jumps, and the unknown times around these jumps.
    pub clock_jumps: ClockJumps,
    /// Time in nanoseconds since `origin_mono_ns` at which the TSC went back, or the clocks had
    /// jumped too often. Later events are not in this result. `None` if neither happened.
    pub tsc_went_back_at_ns: Option<u64>,
    /// Status of each probe, with its limits.
    #[serde(rename = "rungs")]
    pub probe_statuses: Vec<ProbeStatus>,
    /// Periods found in gaps that no probe explains. Each CPU has at most three periods. The period
    /// with the most time comes first.
    pub periodic: Vec<Periodic>,
    /// Summary of the host's feed; `None` if no host sent anything.
    pub feed: Option<FeedSummary>,
    /// Wake-ups of periodic tasks, which are reported in a document of their own; `None` for other
    /// workloads.
    #[serde(skip)]
    pub wakeups: Option<WakeupSummary>,
    /// Cost of the measurement itself.
    pub own_cost: OwnCostSummary,
    /// Sum of `hw`, `hv_or_hw` and `unexplained` over all CPUs, in percent of their noise; `None`
    /// without noise.
    pub residual_percent_of_noise: Option<f64>,
    /// Whether the run ended normally. If not, the result covers the events until the stream ended.
    pub complete: bool,
    /// Reason for the end; `None` if the run was cut off.
    pub finish_reason: Option<FinishReason>,
}

impl Summary {
    /// Returns the longest time for which a CPU was stopped or held, in nanoseconds, and a text
    /// with the CPUs. The text names the CPUs with more than half of this time, as ` on CPU 3,5`.
    /// The text is empty if these are all CPUs. Returns `None` if no CPU was stopped or held.
    pub fn longest_not_measured(&self) -> Option<(u64, String)> {
        let of_cpu = |cpu: &CpuSummary| cpu.not_measured_ns.unwrap_or(0);
        let longest_ns = self.cpus.iter().map(of_cpu).max().filter(|ns| *ns > 0)?;
        let held = self.cpus.iter().filter(|cpu| of_cpu(cpu) > longest_ns / 2);
        let held: Vec<String> = held.map(|cpu| cpu.cpu.to_string()).collect();
        let place = match held.len() == self.cpus.len() {
            true => String::new(),
            false => format!(" on CPU {}", held.join(",")),
        };
        Some((longest_ns, place))
    }
}

/// Jumps of a clock, for example in a machine that was suspended or restored from a snapshot. Jumps
/// are counted only if gaps are stamped with the TSC. Between the clock readings around a jump, no
/// gap has a known time or length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ClockJumps {
    /// Number of jumps of either clock.
    pub count: u64,
    /// Time of the run between the readings around the jumps, in nanoseconds. The runtime does not
    /// include this time.
    pub undated_ns: u64,
    /// Number of gaps in the time around clock jumps, over all CPUs. The result does not contain
    /// these gaps.
    pub undated_gaps: u64,
}

/// Result of one CPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CpuSummary {
    /// The CPU's number.
    pub cpu: u32,
    /// Runtime of the workload on this CPU, from its first to its last reading of the clock, in
    /// nanoseconds; `None` if the workload never reported.
    pub runtime_ns: Option<u64>,
    /// First and last reading of the workload's clock, in nanoseconds of CLOCK_MONOTONIC; `None` if
    /// the workload never reported. Values that are computed from single gaps use this window; no
    /// document contains it.
    #[serde(skip)]
    pub measured_mono_ns: Option<(u64, u64)>,
    /// Time in this window in which the workload was stopped (SIGSTOP, Ctrl-Z) or held by a
    /// debugger, in nanoseconds. This time is neither runtime nor noise. `None` if no probe could
    /// see a stop.
    pub not_measured_ns: Option<u64>,
    /// Number of observed gaps at or above the threshold.
    pub gaps: u64,
    /// Total length of the gaps, in nanoseconds.
    pub noise_ns: u64,
    /// `noise_ns` in percent of the runtime.
    pub noise_percent: Option<f64>,
    /// Time left for the workload, in percent of the runtime.
    pub cpu_available_percent: Option<f64>,
    /// Length of the longest gap in nanoseconds; `None` without gaps.
    pub max_gap_ns: Option<u64>,
    /// Noise by share, in nanoseconds; the known shares add up to `noise_ns`.
    pub shares_ns: ShareMap<Option<u64>>,
    /// Time of the share `kvm` without an upper bound, in nanoseconds: other work took part in the
    /// exits, and too few exits for the same reason show KVM's usual time. `None` if `kvm` is
    /// unknown.
    pub unbounded_kvm_ns: Option<u64>,
    /// Number of interferences by class, as osnoise counts them.
    pub interference: InterferenceColumns,
    /// Number of gaps with an interference that no activity shows, because its record was lost. The
    /// parts of these gaps, and the maxima of `sources`, are lower bounds. `None` without a
    /// counter.
    pub incomplete_gaps: Option<u64>,
    /// Time that a guest lost to the layers below it, in the columns of the thesis.
    pub guest_columns: GuestColumns,
    /// Values from the host's frames; `None` without frames.
    pub host: Option<CpuFromFeed>,
    /// Advance of the hypervisor's steal clock as the workload read it, in nanoseconds; not a
    /// share.
    pub steal_clock_ns: Option<u64>,
    /// Advance of the steal clock of the machine under this CPU, in nanoseconds. This is an upper
    /// bound of the part of the residual that an outer host took.
    pub outer_steal_ns: Option<u64>,
    /// Number of system management interrupts of this CPU; `None` if no counter is available.
    pub smi_count: Option<u64>,
    /// Time by source, the largest total first.
    pub sources: Vec<SourceSummary>,
    /// Exits of the vCPU.
    pub exits: ExitsOfVcpu,
    /// Percentiles of the lengths of the gaps.
    pub percentiles_ns: Percentiles,
    /// Number of gaps in which the steal clock advanced by more than the length of the gap.
    pub steal_clamps: u64,
    /// Number of gaps of which no part is explained.
    pub bare_gaps: u64,
    /// Number of gaps in `bare_gaps` that were searched for a period: the first ones of the run.
    pub bare_gaps_searched: u64,
}

impl CpuSummary {
    /// Returns the number of exits that the host's kernel handled, as this run counted them or as
    /// the host reported them.
    pub fn light_exits(&self) -> Option<u64> {
        let reported = self.host.as_ref().and_then(|host| host.reported.light);
        self.exits.light.or(reported)
    }

    /// Returns the number of exits that went to the VMM, as this run counted them or as the host
    /// reported them.
    pub fn heavy_exits(&self) -> Option<u64> {
        let reported = self.host.as_ref().map(|host| host.reported.heavy);
        self.exits.heavy.or(reported)
    }
}

/// Exits of one vCPU over the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ExitsOfVcpu {
    /// Number of exits that the host's kernel handled (LW_EX in the thesis).
    pub light: Option<u64>,
    /// Number of exits that went to the VMM (HW_EX in the thesis).
    pub heavy: Option<u64>,
    /// Number of reloads of the vCPU by the hypervisor.
    pub reloads: Option<u64>,
    /// Number of all exits, by KVM's own statistics of the vCPU. This number serves to check
    /// `light` and `heavy`.
    pub kvm_stat: Option<u64>,
}

/// Percentiles of the lengths of the gaps in nanoseconds, exact to three significant digits (`max`
/// to the nanosecond); `None` without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Percentiles {
    /// Median.
    pub p50: Option<u64>,
    /// 90th percentile.
    pub p90: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// 99.9th percentile.
    pub p999: Option<u64>,
    /// Maximum.
    pub max: Option<u64>,
}

/// A period in the gaps of one CPU that no probe explains.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Periodic {
    /// The CPU.
    pub cpu: u32,
    /// The period in nanoseconds.
    pub period_ns: u64,
    /// Deviation of the gaps from the period, in nanoseconds: 1.4826 times the median absolute
    /// deviation, which equals the standard deviation for a normal distribution.
    pub jitter_ns: u64,
    /// Number of gaps that keep the period.
    pub gaps: u64,
    /// Mean length of the gaps, in nanoseconds.
    pub mean_gap_ns: u64,
    /// Time of these gaps as a fraction (0 to 1) of all residual time of the CPU in the searched
    /// window, including the residual of partly explained gaps.
    pub share_of_residual: f64,
    /// All searched gaps by their start within the period, with the periodic gaps in the middle. A
    /// picture shows these values; no document contains them.
    #[serde(skip)]
    pub fold: Vec<FoldCell>,
}

/// Cost of measuring.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OwnCostSummary {
    /// Number of runs of vmnoise's BPF programs, on all CPUs; `None` if the runs were not counted.
    pub bpf_runs: Option<u64>,
    /// Total time of all BPF runs, in nanoseconds.
    pub bpf_ns: Option<u64>,
    /// `bpf_ns` in percent of the summed runtime of the measured CPUs.
    pub percent_of_runtime: Option<f64>,
}
