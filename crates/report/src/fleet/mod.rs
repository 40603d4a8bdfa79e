//! Hosts and ranks of a data set, each compared with similar ones.

mod judged;
mod lot;

use vmnoise_events::{MeasuringCommand, Share};

pub(crate) use judged::{Group, Judged, LEAST, LEAST_LOST, TIMES};
pub(crate) use lot::{Lot, Taken, Taker, by_taker};

/// A run in a data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetRun {
    /// Name of the machine that made the recording.
    pub host: String,
    /// Rank of the recording process in a parallel program; `None` if the process had no rank.
    pub rank: Option<u64>,
    /// Workload that measured the gaps.
    pub workload: MeasuringCommand,
    /// Threshold in nanoseconds: shorter gaps were not recorded.
    pub threshold_ns: u64,
    /// Whether the workload polled during only a part of each period.
    pub pauses: bool,
    /// Whether the run ended normally. False for a run that was killed.
    pub complete: bool,
    /// Number of lost records that may have been gaps.
    pub lost_gaps: u64,
    /// Number of other lost records. They change no gap's length, but may leave a gap without a
    /// cause.
    pub lost_witnesses: u64,
    /// Sums for each CPU.
    pub cpus: Vec<FleetCpu>,
    /// Culprits of lost time, over all CPUs.
    pub takers: Vec<FleetTaker>,
}

/// Sums of one CPU of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FleetCpu {
    /// Number of the CPU.
    pub cpu: u32,
    /// Time from the first to the last reading of the clock by the workload, in nanoseconds.
    pub span_ns: u64,
    /// Time for which the workload polled between its first and last reading of the clock, in
    /// nanoseconds.
    pub runtime_ns: u64,
    /// Number of gaps of the CPU.
    pub gaps: u64,
    /// Sum of the lengths of all gaps, in nanoseconds.
    pub noise_ns: u64,
    /// Length of the longest gap, in nanoseconds; `None` without gaps.
    pub max_gap_ns: Option<u64>,
}

/// Time that a culprit took in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetTaker {
    /// Share in which the time is counted.
    pub share: Share,
    /// Name of the culprit without its number; `None` if unknown.
    pub name: Option<String>,
    /// Number of gaps in which the culprit took time.
    pub gaps: u64,
    /// Total time, in nanoseconds.
    pub total_ns: u64,
    /// Longest time in one gap, in nanoseconds.
    pub most_ns: u64,
}

/// The hosts and ranks of a data set, each compared with similar ones.
pub(crate) struct Fleet {
    pub(crate) hosts: Vec<Lot>,
    /// Ranks of parallel programs; empty if no run has a rank.
    pub(crate) ranks: Vec<Lot>,
    pub(crate) judged_hosts: Judged,
    pub(crate) judged_ranks: Judged,
    /// Culprits on all hosts and the time that they took, the largest first.
    pub(crate) takers: Vec<(Taker, Taken)>,
}

impl Fleet {
    pub(crate) fn new(runs: &[FleetRun]) -> Fleet {
        let hosts = lot::of(runs, |run| Some((0, run.host.clone())));
        // Several programs may have a rank with the same number, so the host is part of the name.
        let rank = |run: &FleetRun| {
            let rank = run.rank?;
            Some((rank, format!("rank {rank} on {}", run.host)))
        };
        let ranks = lot::of(runs, rank);
        Fleet {
            judged_hosts: Judged::new(&hosts),
            judged_ranks: Judged::new(&ranks),
            takers: by_taker(&hosts),
            hosts,
            ranks,
        }
    }
}
