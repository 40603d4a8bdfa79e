//! The result of a run, schema `vmnoise.summary/1`: what a reader of the JSON gets
//! behind the head that the program puts in front. Unknown is `None`, in JSON
//! null; it is never 0 and never absent.

use serde::Serialize;
use vmnoise_events::coverage::Coverage;
use vmnoise_events::{FinishReason, ProbeStatus, ShareMap};

use crate::feed::{CpuFromFeed, FeedSummary};
use crate::guest_columns::GuestColumns;
use crate::interference::Interference;
use crate::losses::Losses;
use crate::named::{NamedInterval, SourceSummary};
use crate::periodic::FoldCell;
use crate::wakeups::Wakeups;

/// A whole run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// One entry for each CPU, ascending.
    pub cpus: Vec<CpuSummary>,
    /// Zero of every `at_ns`, CLOCK_MONOTONIC in nanoseconds: the first reading of a workload, or the
    /// begin of the first gap or wake-up if that is earlier or no reading is dated. `None` without either.
    #[serde(skip)]
    pub origin_mono_ns: Option<u64>,
    /// The longest gaps over all CPUs, longest first; as many as `--top` asked for.
    pub worst: Vec<NamedInterval>,
    /// The earliest gap that reached the `--stop` limit; `None` if none did.
    pub stopped_by: Option<NamedInterval>,
    /// What the run could see.
    #[serde(rename = "blind_spots")]
    pub coverage: Coverage,
    /// Everything that was lost, the sum of `losses`.
    pub lost_events: u64,
    /// What was lost, by kind.
    pub losses: Losses,
    /// Activities that came after the watermark that promised none, which explain
    /// nothing, and gaps that came after their activities had been forgotten.
    pub late_events: u64,
    /// Bound of the error between the clock of gaps and that of activities, in
    /// nanoseconds; `None` if no anchor joined them.
    pub clock_bound_ns: Option<u64>,
    /// Number of clock jumps, and what is unknown because of them.
    pub clock_jumps: ClockJumps,
    /// When the TSC went back, or the clocks had jumped too often to be followed, in nanoseconds since
    /// `origin_mono_ns`: nothing after that is trusted or in this result. `None` if neither happened.
    pub tsc_went_back_at_ns: Option<u64>,
    /// What each probe used, and what it could not show.
    #[serde(rename = "rungs")]
    pub probe_statuses: Vec<ProbeStatus>,
    /// Periods found in gaps that no witness explains; at most three for each CPU, the
    /// one that took most time first.
    pub periodic: Vec<Periodic>,
    /// What came by the host's feed; `None` where none ever said anything.
    pub feed: Option<FeedSummary>,
    /// Of periodic tasks; `None` of other workloads. It has a document of its own.
    #[serde(skip)]
    pub wakeups: Option<Wakeups>,
    /// What measuring itself cost.
    pub own_cost: OwnCostSummary,
    /// `hw`, `hv_or_hw` and `unexplained` over all CPUs, in percent of their noise;
    /// `None` without noise.
    pub residual_percent_of_noise: Option<f64>,
    /// Whether the run ended in order; otherwise this is all there was of it.
    pub complete: bool,
    /// Why it ended; `None` if not in order.
    pub finish_reason: Option<FinishReason>,
}

impl Summary {
    /// How long the run was stopped or held, in nanoseconds, on the CPU where that was longest, and ` on
    /// CPU 3,5` behind it where others were measured for most of that time. `None` if it never was.
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

/// Jumps of a clock, as in a machine that was suspended, or restored from a snapshot, where gaps are
/// stamped with the TSC. Between the two readings of both clocks around a jump no gap has a place or a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ClockJumps {
    /// How often one of the clocks jumped.
    pub count: u64,
    /// Time of the run between the readings around the jumps: it is in no runtime. Nanoseconds.
    pub undated_ns: u64,
    /// Gaps that reach into that time, over all CPUs: none of them is in this result.
    pub undated_gaps: u64,
}

/// One CPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CpuSummary {
    /// The CPU's number.
    pub cpu: u32,
    /// How long the workload ran on it, first to last reading of its clock, in
    /// nanoseconds; `None` if it never reported.
    pub runtime_ns: Option<u64>,
    /// From the workload's first reading of its clock to its last, CLOCK_MONOTONIC in nanoseconds;
    /// `None` if it never reported. What is computed from single gaps has its place in time by it: no
    /// document has it.
    #[serde(skip)]
    pub measured_mono_ns: Option<(u64, u64)>,
    /// How long it was stopped (SIGSTOP, Ctrl-Z) or held by a debugger in between, in nanoseconds:
    /// no part of the runtime, and no noise. `None` where no witness could say.
    pub not_measured_ns: Option<u64>,
    /// How many gaps at or above the threshold it observed.
    pub gaps: u64,
    /// Their total length in nanoseconds.
    pub noise_ns: u64,
    /// That in percent of the runtime.
    pub noise_percent: Option<f64>,
    /// What was left for the workload, in percent of the runtime.
    pub cpu_available_percent: Option<f64>,
    /// The longest gap in nanoseconds; `None` without gaps.
    pub max_gap_ns: Option<u64>,
    /// Where the noise went, in nanoseconds; what is known adds up to `noise_ns`.
    pub shares_ns: ShareMap<Option<u64>>,
    /// What of `kvm` nothing bounds, in nanoseconds: that of exits in which others had part, and
    /// for whose reason too few exits had shown what KVM usually takes. `None` where `kvm` is.
    pub unbounded_kvm_ns: Option<u64>,
    /// What interfered, as osnoise counts it.
    pub interference: Interference,
    /// Gaps in which something interfered that no activity shows, because its record
    /// was lost: their parts, and the maxima of `sources`, are lower bounds. `None`
    /// where no counter could say.
    pub incomplete_gaps: Option<u64>,
    /// What a guest lost, in the columns of the thesis.
    pub guest_columns: GuestColumns,
    /// What the host's frames reported; `None` where there were none.
    pub host: Option<CpuFromFeed>,
    /// Advance of the hypervisor's steal clock as the workload read it, in
    /// nanoseconds; no share.
    pub steal_clock_ns: Option<u64>,
    /// Advance of the steal clock of the machine under this CPU, in nanoseconds: an
    /// upper bound on what an outer host took of the residual.
    pub outer_steal_ns: Option<u64>,
    /// System management interrupts of this CPU; `None` where nothing counts them.
    pub smi_count: Option<u64>,
    /// Who took how much, largest total first.
    pub sources: Vec<SourceSummary>,
    /// Exits of the vCPU.
    pub exits: Exits,
    /// Distribution of the gaps' lengths.
    pub percentiles_ns: Percentiles,
    /// Gaps for which the steal clock claimed more than their length.
    pub steal_clamps: u64,
    /// Gaps that no witness explains at all.
    pub bare_gaps: u64,
    /// How many of these, from the first on, were searched for a period.
    pub bare_gaps_searched: u64,
}

impl CpuSummary {
    /// Exits handled in the host kernel, counted here or told by the host.
    pub fn light_exits(&self) -> Option<u64> {
        let reported = self.host.as_ref().and_then(|host| host.reported.light);
        self.exits.light.or(reported)
    }

    /// Exits that went to the VMM, counted here or told by the host.
    pub fn heavy_exits(&self) -> Option<u64> {
        let reported = self.host.as_ref().map(|host| host.reported.heavy);
        self.exits.heavy.or(reported)
    }
}

/// Exits of one vCPU over the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Exits {
    /// Handled in the host kernel (the thesis' LW_EX).
    pub light: Option<u64>,
    /// Handled by the VMM (the thesis' HW_EX).
    pub heavy: Option<u64>,
    /// Reloads of the vCPU by the hypervisor.
    pub reloads: Option<u64>,
    /// All exits by KVM's own statistics of the vCPU, the check on the first two.
    pub kvm_stat: Option<u64>,
}

/// Percentiles of the gaps' lengths in nanoseconds, exact to three significant
/// digits (`max` to the nanosecond); `None` without gaps.
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
    /// The longest.
    pub max: Option<u64>,
}

/// A period in the gaps of one CPU that no witness explains.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Periodic {
    /// The CPU.
    pub cpu: u32,
    /// The period in nanoseconds.
    pub period_ns: u64,
    /// How far gaps stray from it, in nanoseconds: 1.4826 times the median
    /// absolute deviation, which is the standard deviation if they stray normally.
    pub jitter_ns: u64,
    /// Gaps that keep it.
    pub gaps: u64,
    /// Their mean length in nanoseconds.
    pub mean_gap_ns: u64,
    /// Their time as a fraction (0 to 1) of all residual time of the CPU, gaps
    /// with witnesses included, over the stretch that was searched.
    pub share_of_residual: f64,
    /// Every gap that was searched, by where in the period it begins; those that keep it are in the
    /// middle. A picture, and no figure: no document has it.
    #[serde(skip)]
    pub fold: Vec<FoldCell>,
}

/// What measuring cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OwnCostSummary {
    /// How often a BPF program of ours ran, on all CPUs; `None` if not counted.
    pub bpf_runs: Option<u64>,
    /// For how long in total, in nanoseconds.
    pub bpf_ns: Option<u64>,
    /// That in percent of the summed runtime of the measured CPUs.
    pub percent_of_runtime: Option<f64>,
}
