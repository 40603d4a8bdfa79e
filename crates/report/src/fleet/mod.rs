//! The hosts of a data set, each held against its like.

mod judged;
mod lot;

use vmnoise_events::{Share, Workload};

pub(crate) use judged::{Group, Judged, LEAST, LEAST_LOST, TIMES};
pub(crate) use lot::{Lot, Taken, Taker, by_taker};

/// A run of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetRun {
    /// The machine that recorded.
    pub host: String,
    /// The rank of the process that recorded, if it had one.
    pub rank: Option<u64>,
    /// Who observed.
    pub workload: Workload,
    /// Gaps of at least this length were reported, nanoseconds.
    pub threshold_ns: u64,
    /// Whether it polled but a part of each period.
    pub pauses: bool,
    /// Whether it ended in order.
    pub complete: bool,
    /// Lost records that may have been gaps.
    pub lost_gaps: u64,
    /// All else that was lost: gaps keep their length, and may lack those who took them.
    pub lost_witnesses: u64,
    /// What each CPU came to.
    pub cpus: Vec<FleetCpu>,
    /// Who took time, on all CPUs together.
    pub takers: Vec<FleetTaker>,
}

/// A CPU of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FleetCpu {
    /// Its number.
    pub cpu: u32,
    /// From its workload's first reading of the clock to the last, nanoseconds.
    pub span_ns: u64,
    /// How long the workload ran in between, nanoseconds.
    pub runtime_ns: u64,
    /// Gaps.
    pub gaps: u64,
    /// Their length together, nanoseconds.
    pub noise_ns: u64,
    /// The longest, nanoseconds; `None` where there is none.
    pub max_gap_ns: Option<u64>,
}

/// Who took time in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetTaker {
    /// Under which share.
    pub share: Share,
    /// Who, without a number; `None` where nobody is named.
    pub name: Option<String>,
    /// In how many gaps.
    pub gaps: u64,
    /// All of it, nanoseconds.
    pub total_ns: u64,
    /// The most in one gap, nanoseconds.
    pub most_ns: u64,
}

/// The hosts and ranks of a fleet, each held against its like.
pub(crate) struct Fleet {
    pub(crate) hosts: Vec<Lot>,
    /// Empty where nobody had a rank.
    pub(crate) ranks: Vec<Lot>,
    pub(crate) judged_hosts: Judged,
    pub(crate) judged_ranks: Judged,
    /// The one that took most first.
    pub(crate) takers: Vec<(Taker, Taken)>,
}

impl Fleet {
    pub(crate) fn new(runs: &[FleetRun]) -> Fleet {
        let hosts = lot::of(runs, |run| Some((0, run.host.clone())));
        // Each job has a rank of that number, and its host tells them apart.
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
