//! What speaks for each VM that may be the guest, and how much.

use serde::Serialize;

use vmnoise_events::Name;

use super::odds::{Verdict, printable};
use super::result::Pair;

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

    /// As it is told.
    pub(super) fn log10(&self) -> f64 {
        printable(self.decades)
    }
}
