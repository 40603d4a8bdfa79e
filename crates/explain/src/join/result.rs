//! What a join comes to.

use serde::Serialize;
use vmnoise_events::{FinishReason, Name, Share};

use super::latency::JoinedLatencies;
use super::odds::Verdict;
use super::pairing::{Alternative, Pairing};
use crate::losses::Losses;
use crate::summary::{NamedPart, Summary, WorstGap};

/// A guest's run, with what its host did as one more witness.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinedRun {
    /// The guest's summary; shares of the host are known in it.
    pub summary: Summary,
    /// Which vCPU each CPU of the guest is, by CPU.
    pub pairs: Vec<Pair>,
    /// What speaks for that, and for every other VM that may be the guest.
    pub pairing: Pairing,
    /// How far the two recordings cover each other.
    pub joined: JoinedTotals,
    /// Gaps of at least this length count for the culprits, in nanoseconds.
    pub above_ns: u64,
    /// Who took the time of those gaps, largest first; they add up to it.
    pub culprits: Vec<Culprit>,
    /// The longest gaps, longest first.
    pub trees: Vec<GapTree>,
    /// The thesis' own sum beside ours, over the joined exits that held work of the host.
    pub thesis: Option<ThesisSum>,
    /// Of periodic tasks, which feel no gaps; `None` of other workloads.
    pub latencies: Option<JoinedLatencies>,
    /// What is to be said of the host's recording.
    pub host: HostSide,
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
    /// The vCPU's number in its VM; `None` where nothing told.
    pub vcpu: Option<u32>,
    /// The vCPU's thread on the host.
    pub tid: u32,
    /// How many clocks the guest had, one after the other, while both recorded.
    pub clocks: u32,
    /// How long both recorded, in nanoseconds.
    pub overlap_ns: u64,
    /// Gaps of the guest, and stretches between two gaps, that hold exits long enough to be
    /// felt: each counts once, however many it holds. Where KVM's own exits are not seen, the
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

/// How much of the guest's gaps the host's recording tells about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct JoinedTotals {
    /// Gaps of the guest.
    pub gaps: u64,
    /// Gaps that lie wholly in the time that the host recorded, on a known clock.
    pub witnessed: u64,
    /// Witnessed gaps that hold an exit.
    pub joined: u64,
    /// Witnessed gaps above [`JoinedRun::above_ns`].
    pub witnessed_above: u64,
    /// Of these, how many hold an exit.
    pub joined_above: u64,
    /// Length of the witnessed gaps, in nanoseconds.
    pub witnessed_ns: u64,
    /// What no witness of either kernel explains of them, `hw` included, in nanoseconds.
    pub witnessed_unexplained_ns: u64,
    /// Length of the joined gaps, in nanoseconds.
    pub joined_ns: u64,
    /// What no witness of either kernel explains of them, in nanoseconds.
    pub unexplained_ns: u64,
    /// Exits that lie in a gap, at least in part.
    pub exits: u64,
    /// Where the clocks are not sure who it was.
    pub unsure: Unsure,
    /// `kvm` of exits that hold work of the host, and for whose reason too few exits had shown by
    /// then what KVM usually takes, in nanoseconds.
    pub unbounded_kvm_ns: u64,
}

/// What is too short for the bound of a pair's clock: twice the bound or less. Nobody on the
/// host is named for it; its time is residual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Unsure {
    /// Witnessed gaps, or phases of witnessed wake-ups, that are as short as that.
    pub count: u64,
    /// Exits that have no more of a longer one.
    pub exits: u64,
    /// The length of the first, and what the others have, in nanoseconds.
    pub ns: u64,
}

impl Unsure {
    /// Takes one gap or phase: whether it is long enough, how many exits are not, and how much
    /// time that is.
    pub(super) fn add(&mut self, is_sure: bool, exits: u64, ns: u64) {
        self.count += u64::from(!is_sure);
        self.exits += if is_sure { exits } else { 0 };
        self.ns = self.ns.saturating_add(ns);
    }
}

/// On which side of the virtual machine somebody is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The guest's kernel and its tasks.
    Guest,
    /// The host's kernel, its tasks, the hypervisor and the VMM.
    Host,
    /// Neither kernel knows.
    Unknown,
}

/// Who took time of the guest's gaps, over the whole run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Culprit {
    /// Where it is.
    pub side: Side,
    /// Under which share it is booked.
    pub share: Share,
    /// Who; of `kvm` and `vmm` the reason of the exit; `None` where nobody is named.
    pub name: Option<Name>,
    /// The CPU of its own machine on which it ran; `None` of a share without one.
    pub cpu: Option<u32>,
    /// In how many gaps, or latencies, it had part.
    pub gaps: u64,
    /// What it took of them, in nanoseconds.
    pub total_ns: u64,
    /// The most it took of one, in nanoseconds.
    pub max_ns: u64,
    /// That total in percent of the length of all gaps above the threshold.
    pub percent: f64,
}

/// One gap, and both sides of what happened in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GapTree {
    /// The gap; its parts add up to its length.
    pub gap: WorstGap,
    /// What the guest's own kernel had of it, net of what its host took meanwhile, largest
    /// first.
    pub guest: Vec<NamedPart>,
    /// The exits in it, in the order of time.
    pub exits: Vec<ExitBranch>,
    /// `steal` that no witness of the host places, in nanoseconds.
    pub steal_ns: u64,
    /// What no witness explains outside of exits, in nanoseconds; with the guest's parts, the
    /// exits and the steal it adds up to the gap.
    pub residual_ns: u64,
    /// Under which share that is booked.
    pub residual: Share,
    /// Whether the host recorded all of it, on a known clock.
    pub witnessed: bool,
}

/// One exit in a gap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExitBranch {
    /// Why the guest was left.
    pub reason: String,
    /// Whether it went to the VMM.
    pub heavy: bool,
    /// The host's CPU that it left from.
    pub exit_cpu: u32,
    /// The host's CPU that it returned on.
    pub entry_cpu: u32,
    /// When it began after the gap's begin, in nanoseconds; 0 if before.
    pub after_ns: u64,
    /// What it had of the gap, in nanoseconds: its parts add up to it. A sleep that the
    /// guest had asked for is the guest's where its own kernel was busy with something.
    pub dur_ns: u64,
    /// Largest first.
    pub parts: Vec<HostPart>,
    /// What of it lies in the gap, or in the phase, piece by piece.
    #[serde(skip)]
    pub pieces: Vec<HostPiece>,
}

/// A stretch of an exit in a gap that one on the host had for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPiece {
    /// When it began after the gap's begin, in nanoseconds.
    pub after_ns: u64,
    /// Length in nanoseconds.
    pub dur_ns: u64,
    /// Under which share.
    pub share: Share,
    /// Who; of `kvm` and `vmm` the reason of the exit; `None` where nobody is named.
    pub name: Option<Name>,
    /// The host's CPU on which that was.
    pub cpu: u32,
}

/// What somebody on the host took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostPart {
    /// Under which share.
    pub share: Share,
    /// Who; `None` where nobody is named.
    pub name: Option<Name>,
    /// The host's CPU on which that was; `None` of a share without one.
    pub cpu: Option<u32>,
    /// Net time in nanoseconds.
    pub ns: u64,
    /// How many activities it adds up.
    pub count: u32,
}

/// Of the joined exits that held work of the host: what each way of adding up explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ThesisSum {
    /// How many.
    pub exits: u64,
    /// Their length, in nanoseconds.
    pub length_ns: u64,
    /// Interrupts, threads and overhead by the thesis' own sum, in nanoseconds.
    pub thesis_ns: u64,
    /// What is explained here: all but what is booked as unexplained, in nanoseconds.
    pub ours_ns: u64,
}

/// What is to be said of the host's recording.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostSide {
    /// `uname -r`.
    pub kernel: Name,
    /// The hypervisor that the host itself runs on; `None` on bare metal.
    pub hypervisor: Option<Name>,
    /// Exits shorter than this were not recorded one by one, in nanoseconds.
    pub threshold_ns: u64,
    /// Exits for other reasons were not recorded one by one; empty is all reasons.
    pub only_reasons: Vec<Name>,
    /// What was lost of its stream.
    pub losses: Losses,
    /// All of that.
    pub lost_events: u64,
    /// What came of it when the gaps of its time had been explained without it.
    pub late_events: u64,
    /// Whether the run ended in order.
    pub complete: bool,
    /// Why it ended; `None` if it did not.
    pub finish_reason: Option<FinishReason>,
}
