//! What speaks for each VM that may be the guest, and how much.

use serde::Serialize;

use vmnoise_events::{Name, VmIdentity};

use super::odds::{Verdict, printable};

/// Whether a guest is one of the VMs of a host, by the data of both.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pairing {
    /// Of the best candidate.
    pub verdict: Verdict,
    /// Its odds, as their common logarithm; between -99 and 99.
    pub log10_odds: f64,
    /// VMs with vCPUs that may be CPUs of the guest, the best first.
    pub candidates: Vec<CandidateVm>,
}

/// A VM as the guest.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CandidateVm {
    /// What people call it.
    pub vm: Name,
    /// The process of its VMM.
    pub vmm_pid: u32,
    /// What else is known of it.
    pub identity: VmIdentity,
    /// What its odds come to. A CPU that is refused refuses all: they are vCPUs of one VM.
    pub verdict: Verdict,
    /// Odds that this VM is the guest, over the best alternative; their common logarithm,
    /// between -99 and 99.
    pub log10_odds: f64,
    /// What that alternative is.
    pub against: Alternative,
    /// Its vCPUs as CPUs of the guest, whether they are joined or not; by CPU.
    pub pairs: Vec<Pair>,
}

/// One CPU of the guest, the vCPU of the host that it is, and what says so.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    /// The guest's CPU.
    pub cpu: u32,
    /// What people call its VM.
    pub vm: Name,
    /// The process of its VMM.
    pub vmm_pid: u32,
    /// The vCPU's number in its VM; `None` where nothing said so.
    pub vcpu: Option<u32>,
    /// The vCPU's thread on the host.
    pub tid: u32,
    /// How many clocks the guest had, one after the other, while both recorded.
    pub clocks: u32,
    /// How long both recorded, in nanoseconds.
    pub overlap_ns: u64,
    /// Gaps of the guest, and stretches between two gaps, that hold exits long enough to be
    /// observed: each counts once, however many it holds. Where KVM's own exits are not seen, the
    /// vCPU's waits for a CPU count as exits. Of periodic tasks, what lies between two instants
    /// at which they ran counts as a gap.
    pub exits_tested: u64,
    /// How many of them are gaps.
    pub exits_inside: u64,
    /// In how many of these the guest ran at an instant at which, by this clock, its vCPU was out.
    pub exits_contradicted: u64,
    /// How likely an exit among those tested would lie in a gap at any other time, in percent.
    pub by_chance_percent: f64,
    /// How much earlier and later the exits could lie while no more of them contradict the
    /// clock than do now, in nanoseconds: what the data alone say of it. `None` without exits
    /// to tell.
    pub slack_ns: Option<(i64, i64)>,
    /// Bound of the error that the readings of both sides' clocks add, in nanoseconds.
    pub anchors_ns: u64,
    /// Bound of the error of a time laid over the other clock, in nanoseconds: the anchors',
    /// and how far off the recorded clock could be before the data would contradict it.
    pub bound_ns: u64,
    /// Odds that this vCPU is this CPU, over the best alternative; their common logarithm,
    /// between -99 and 99.
    pub log10_odds: f64,
    /// What that alternative is.
    pub against: Alternative,
    /// What the odds come to.
    pub verdict: Verdict,
    /// Whether it is taken for a pair: its VM is proven, and its own odds are above 1.
    pub joined: bool,
    /// The CPU of the guest whose proof it leans on, where its own odds are no proof.
    pub leans_on: Option<u32>,
}

/// What the data could mean instead.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Alternative {
    /// Two machines that have nothing to do with each other.
    Chance,
    /// More tests failed than would of the same machine.
    Failures,
    /// The guest's clock is off by so much from what the host recorded.
    Clock {
        /// So much further ahead it would be, in nanoseconds.
        offset_ns: i64,
    },
    /// Another vCPU.
    Vcpu {
        /// Its number in its VM.
        vcpu: Option<u32>,
        /// Its VM.
        vm: Name,
        /// The process of its VMM.
        vmm_pid: u32,
    },
}

/// Odds over one alternative, in decades.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Odds {
    pub(super) decades: f64,
    pub(super) against: Alternative,
}

impl Odds {
    /// Over the one that leaves the least.
    pub(super) fn least(all: impl IntoIterator<Item = Odds>) -> Odds {
        let nothing = Odds {
            decades: 0.0,
            against: Alternative::Chance,
        };
        let least = |a: &Odds, b: &Odds| a.decades.total_cmp(&b.decades);
        all.into_iter().min_by(least).unwrap_or(nothing)
    }

    pub(super) fn verdict(&self) -> Verdict {
        Verdict::of(self.decades)
    }

    /// As it is reported.
    pub(super) fn log10(&self) -> f64 {
        printable(self.decades)
    }
}
