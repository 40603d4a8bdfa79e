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
    /// Other facts that identify the VM.
    pub identity: VmIdentity,
    /// Verdict from the odds of the VM. One refused CPU refuses the VM, because all CPUs of the
    /// guest are vCPUs of one VM.
    pub verdict: PairingVerdict,
    /// Odds that this VM is the guest, over the best alternative; common logarithm between -99 and
    /// 99.
    pub log10_odds: f64,
    /// Best alternative, with which `log10_odds` compares this VM.
    pub against: Alternative,
    /// Pairs of the VM's vCPUs with the guest's CPUs, joined or not, ordered by CPU.
    pub pairs: Vec<VcpuPair>,
}

/// One CPU of the guest and a vCPU of the host, with the evidence that both are the same.
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
    /// Number of tests. A test is a gap of the guest, or the time between two gaps, that contains
    /// exits long enough to observe. Each test counts once, however many exits it contains.
    ///
    /// If KVM's own exits are not recorded, waits of the vCPU for a CPU are used as exits. For
    /// periodic tasks, the time between two instants at which a task ran is used as a gap.
    pub exits_tested: u64,
    /// Number of tests whose exits lie in a gap.
    pub exits_inside: u64,
    /// Number of tested gaps that contradict the clock: the guest ran at an instant at which, by
    /// this clock, its vCPU was in an exit.
    pub exits_contradicted: u64,
    /// Mean probability that a tested exit would lie in a gap at any other time, in percent.
    pub by_chance_percent: f64,
    /// Largest shifts of the exits to earlier and to later times, in nanoseconds, at which no more
    /// exits contradict the clock than without a shift. These shifts show how exactly the data
    /// alone determine the clock. `None` without tested exits.
    pub slack_ns: Option<(i64, i64)>,
    /// Error bound from the clock readings of both sides, in nanoseconds.
    pub anchors_ns: u64,
    /// Error bound of a time converted to the other side's clock, in nanoseconds. This is the bound
    /// from the readings, plus the largest error of the recorded clock that the data do not
    /// contradict.
    pub bound_ns: u64,
    /// Odds that this vCPU is this CPU, over the best alternative; common logarithm between -99 and
    /// 99.
    pub log10_odds: f64,
    /// Best alternative, with which `log10_odds` compares this pair.
    pub against: Alternative,
    /// Verdict from the odds.
    pub verdict: PairingVerdict,
    /// Whether the pair is accepted: the VM is proven, and the pair is proven or relies on another
    /// pair (`leans_on`).
    pub joined: bool,
    /// CPU of the guest whose proof this pair relies on; `None` if the pair's own odds decide.
    pub leans_on: Option<u32>,
}

/// Other explanation of the data, with which odds are compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Alternative {
    /// The recordings are of two unrelated machines and agree by chance.
    Chance,
    /// More tests failed than would fail for the same machine.
    Failures,
    /// The guest's clock differs from the one that the host recorded.
    Clock {
        /// Difference, in nanoseconds; positive if the guest's clock is ahead.
        offset_ns: i64,
    },
    /// The guest's CPU is another vCPU.
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
    /// Returns the smallest of the given odds; odds of 1 (0 decades) over chance if there are none.
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

    /// Returns the odds as a common logarithm within the printed range.
    pub(super) fn log10(&self) -> f64 {
        printable(self.decades)
    }
}
