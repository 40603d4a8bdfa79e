//! Evidence for each VM that may be the guest.

use serde::Serialize;

use vmnoise_events::{Name, VmIdentity};

use super::odds::{PairingVerdict, printable};

/// Result of the search for the guest among the VMs of a host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pairing {
    /// Verdict on the best candidate.
    pub verdict: PairingVerdict,
    /// Odds of the best candidate, as a common logarithm between -99 and 99.
    pub log10_odds: f64,
    /// VMs with vCPUs that may be the guest's CPUs, the best first.
    pub candidates: Vec<CandidateVm>,
}

/// A VM as a candidate for the guest.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CandidateVm {
    /// Name of the VM for people.
    pub vm: Name,
    /// Process id of the VMM.
    pub vmm_pid: u32,
    /// Other facts about the VM.
    pub identity: VmIdentity,
    /// Verdict from the odds of the VM. If one CPU is refused, the VM is refused, because all CPUs
    /// are vCPUs of one VM.
    pub verdict: PairingVerdict,
    /// Odds that this VM is the guest, over the best alternative; common logarithm between -99 and
    /// 99.
    pub log10_odds: f64,
    /// The best alternative.
    pub against: Alternative,
    /// Pairs of the VM's vCPUs with the guest's CPUs, joined or not, ordered by CPU.
    pub pairs: Vec<VcpuPair>,
}

/// One CPU of the guest, the vCPU of the host that it is, and the evidence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VcpuPair {
    /// The guest's CPU.
    pub cpu: u32,
    /// Name of the vCPU's VM for people.
    pub vm: Name,
    /// Process id of the VMM.
    pub vmm_pid: u32,
    /// Number of the vCPU in its VM; `None` if unknown.
    pub vcpu: Option<u32>,
    /// Thread id of the vCPU on the host.
    pub tid: u32,
    /// Number of clocks that the guest had, one after another, while guest and host both recorded.
    pub clocks: u32,
    /// Time during which both recorded, in nanoseconds.
    pub overlap_ns: u64,
    /// Number of tests: gaps of the guest, and times between two gaps, that contain exits long
    /// enough to observe. Each counts once, however many exits it contains. If KVM's own exits are
    /// not seen, the vCPU's waits for a CPU count as exits. For periodic tasks, the time between
    /// two instants at which they ran counts as a gap.
    pub exits_tested: u64,
    /// Number of tests that are gaps.
    pub exits_inside: u64,
    /// Number of tested gaps in which the guest ran at an instant at which, by this clock, its vCPU
    /// was in an exit.
    pub exits_contradicted: u64,
    /// Mean probability that a tested exit would lie in a gap at any other time, in percent.
    pub by_chance_percent: f64,
    /// Shift of the exits to earlier and later times, in nanoseconds, at which no more of them
    /// contradict the clock than without a shift. This is the knowledge of the clock from the data
    /// alone. `None` without tested exits.
    pub slack_ns: Option<(i64, i64)>,
    /// Error bound from the readings of both sides' clocks, in nanoseconds.
    pub anchors_ns: u64,
    /// Error bound of a time mapped to the other clock, in nanoseconds: the bound from the
    /// readings, plus the error of the recorded clock that the data would not contradict.
    pub bound_ns: u64,
    /// Odds that this vCPU is this CPU, over the best alternative; common logarithm between -99 and
    /// 99.
    pub log10_odds: f64,
    /// The best alternative.
    pub against: Alternative,
    /// Verdict from the odds.
    pub verdict: PairingVerdict,
    /// Whether the pair is accepted: the VM is proven, and the odds of this pair are above 1.
    pub joined: bool,
    /// CPU of the guest whose proof this pair relies on, if its own odds are no proof.
    pub leans_on: Option<u32>,
}

/// Other explanation of the data.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Alternative {
    /// Two unrelated machines.
    Chance,
    /// More tests failed than would fail for the same machine.
    Failures,
    /// The guest's clock differs from the one that the host recorded.
    Clock {
        /// Difference, in nanoseconds; positive if the guest's clock is ahead.
        offset_ns: i64,
    },
    /// Another vCPU.
    Vcpu {
        /// Number of the vCPU in its VM.
        vcpu: Option<u32>,
        /// Name of the vCPU's VM.
        vm: Name,
        /// Process id of the VMM.
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
    /// Returns the smallest of the given odds.
    pub(super) fn least(all: impl IntoIterator<Item = Odds>) -> Odds {
        let nothing = Odds {
            decades: 0.0,
            against: Alternative::Chance,
        };
        let least = |a: &Odds, b: &Odds| a.decades.total_cmp(&b.decades);
        all.into_iter().min_by(least).unwrap_or(nothing)
    }

    pub(super) fn verdict(&self) -> PairingVerdict {
        PairingVerdict::of(self.decades)
    }

    /// Returns the odds as reported.
    pub(super) fn log10(&self) -> f64 {
        printable(self.decades)
    }
}
