//! The hosts of a data set, each compared with similar ones.

mod judged;
mod lot;

use vmnoise_events::{MeasuringCommand, Share};

pub(crate) use judged::{Group, Judged, LEAST, LEAST_LOST, TIMES};
pub(crate) use lot::{Lot, Taken, Taker, by_taker};

/// A run of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetRun {
    /// Name of the machine that recorded.
    pub host: String,
    /// Rank of the recording process in a parallel program; `None` if it had no rank.
    pub rank: Option<u64>,
    /// Workload that observed.
    pub workload: MeasuringCommand,
    /// Shortest gap that was recorded, in nanoseconds.
    pub threshold_ns: u64,
    /// True if the workload polled only a part of each period.
    pub pauses: bool,
    /// True if the run ended normally, not by a kill.
    pub complete: bool,
    /// Lost records that may have been gaps.
    pub lost_gaps: u64,
    /// All other lost records: gaps keep their lengths, but may lack their causes.
    pub lost_witnesses: u64,
    /// Sums of each CPU.
    pub cpus: Vec<FleetCpu>,
    /// Causes of lost time, over all CPUs.
    pub takers: Vec<FleetTaker>,
}

/// A CPU of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FleetCpu {
    /// Number of the CPU.
    pub cpu: u32,
    /// Time from the workload's first reading of the clock to the last, in nanoseconds.
    pub span_ns: u64,
    /// Time for which the workload ran in between, in nanoseconds.
    pub runtime_ns: u64,
    /// Number of gaps.
    pub gaps: u64,
    /// Length of all gaps, in nanoseconds.
    pub noise_ns: u64,
    /// Length of the longest gap in nanoseconds; `None` if there is none.
    pub max_gap_ns: Option<u64>,
}

/// A cause of lost time in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetTaker {
    /// Share of the time.
    pub share: Share,
    /// Name without a number; `None` if it is unknown.
    pub name: Option<String>,
    /// Number of gaps.
    pub gaps: u64,
    /// Total time in nanoseconds.
    pub total_ns: u64,
    /// Largest time in one gap, in nanoseconds.
    pub most_ns: u64,
}

/// The hosts and ranks of a data set, each compared with similar ones.
pub(crate) struct Fleet {
    pub(crate) hosts: Vec<Lot>,
    /// Empty if no run has a rank.
    pub(crate) ranks: Vec<Lot>,
    pub(crate) judged_hosts: Judged,
    pub(crate) judged_ranks: Judged,
    /// The largest first.
    pub(crate) takers: Vec<(Taker, Taken)>,
}

impl Fleet {
    pub(crate) fn new(runs: &[FleetRun]) -> Fleet {
        let hosts = lot::of(runs, |run| Some((0, run.host.clone())));
        // Several jobs have a rank with this number; the host distinguishes them.
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
