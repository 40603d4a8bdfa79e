//! Host's part in a gap or in a phase of a wake-up: exits with their parts, culprits, and time that
//! is too short for the clock error.

use serde::{Serialize, Serializer};
use vmnoise_events::{Name, Share};

use crate::named::NamedPart;
use crate::piece::NamedPiece;

/// Time in gaps, phases and overlaps of at most twice the clock error of the pair. This time is
/// residual, without a culprit on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Unsure {
    /// Number of gaps, or phases of wake-ups, of at most twice the clock error that the host's
    /// recording covers.
    pub count: u64,
    /// Number of exits that overlap a longer gap or phase by at most twice the clock error.
    pub exits: u64,
    /// Length of the gaps and phases that are too short, plus the time of the exits that are too
    /// short, in nanoseconds.
    pub ns: u64,
}

impl Unsure {
    /// Adds one gap or phase: whether it is long enough, the number of its short exits, and their
    /// time.
    pub(super) fn add(&mut self, is_sure: bool, exits: u64, ns: u64) {
        self.count += u64::from(!is_sure);
        self.exits += if is_sure { exits } else { 0 };
        self.ns = self.ns.saturating_add(ns);
    }
}

/// Side of the virtual machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VmSide {
    /// The guest's kernel and its tasks.
    Guest,
    /// The host's kernel, its tasks, the hypervisor and the VMM.
    Host,
    /// Unknown to both kernels.
    Unknown,
}

/// A culprit that took time of the guest's gaps, over the whole run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GuestCulprit {
    /// Side on which the culprit runs.
    pub side: VmSide,
    /// Share of the time.
    pub share: Share,
    /// Name of the culprit; for `kvm` and `vmm` the reason of the exit; `None` if the culprit is
    /// unknown.
    pub name: Option<Name>,
    /// CPU of the guest or host on which the culprit ran; `None` for a share without a CPU.
    pub cpu: Option<u32>,
    /// Number of gaps or latencies in which the culprit took time.
    pub gaps: u64,
    /// Total time taken, in nanoseconds.
    pub total_ns: u64,
    /// Most time taken from one gap or latency, in nanoseconds.
    pub max_ns: u64,
    /// `total_ns` in percent of the length of all gaps above the threshold.
    pub percent: f64,
}

/// One exit in a gap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExitBranch {
    /// Reason of the exit.
    pub reason: String,
    /// Whether the exit went to the VMM.
    pub heavy: bool,
    /// Host CPU on which the vCPU left its guest.
    pub exit_cpu: u32,
    /// Host CPU on which the vCPU returned to its guest.
    pub entry_cpu: u32,
    /// Time from the start of the gap to the start of the exit, in nanoseconds; 0 if the exit
    /// started earlier.
    pub after_ns: u64,
    /// Time of the exit in the gap, in nanoseconds; its parts add up to it. A sleep that the guest
    /// asked for belongs to the guest, if the guest's own kernel was busy.
    pub dur_ns: u64,
    /// Parts, largest first.
    #[serde(serialize_with = "on_host")]
    pub parts: Vec<NamedPart>,
    /// Pieces of the exit within the gap or phase.
    #[serde(skip)]
    pub pieces: Vec<NamedPiece>,
}

/// Serializes the parts of an exit for the document of a join.
fn on_host<S: Serializer>(parts: &[NamedPart], to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct OfHost<'a> {
        share: Share,
        name: Option<&'a str>,
        cpu: Option<u32>,
        ns: u64,
        count: u32,
    }
    to.collect_seq(parts.iter().map(|part| OfHost {
        share: part.share,
        name: part.source.as_deref(),
        cpu: part.host_cpu,
        ns: part.ns,
        count: part.count,
    }))
}
