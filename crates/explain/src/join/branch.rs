//! Contribution of the host to a gap or to a phase of a wake-up: exits, culprits, and time whose
//! culprit the clock error hides.

use serde::{Serialize, Serializer};
use vmnoise_events::{Name, Share};

use crate::named::NamedPart;
use crate::piece::NamedPiece;

/// Time whose culprit the clock error hides: gaps, wake-up phases and overlaps with exits that are
/// at most twice as long as the clock error. This time stays in the residual, without a culprit on
/// the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Unsure {
    /// Number of gaps or wake-up phases that the host's recording covers and that are at most twice
    /// as long as the clock error.
    pub count: u64,
    /// Number of exits that overlap a longer gap or phase for at most twice the clock error.
    pub exits: u64,
    /// Length of the gaps and phases in `count`, plus the overlaps of the exits in `exits`, in
    /// nanoseconds.
    pub ns: u64,
}

impl Unsure {
    /// Adds a gap or phase. `is_sure` is true if it is longer than twice the clock error. `exits`
    /// is the number of exits whose overlap is too short, and `ns` the time that the clock error
    /// hides.
    pub(super) fn add(&mut self, is_sure: bool, exits: u64, ns: u64) {
        self.count += u64::from(!is_sure);
        self.exits += if is_sure { exits } else { 0 };
        self.ns = self.ns.saturating_add(ns);
    }
}

/// Side of the virtual machine on which a culprit runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VmSide {
    /// The guest's kernel and its tasks.
    Guest,
    /// The host's kernel, its tasks, the hypervisor and the VMM.
    Host,
    /// Neither kernel knows the side.
    Unknown,
}

/// One culprit, with the time that it took from all gaps or latencies of the guest in the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GuestCulprit {
    /// Side on which the culprit runs.
    pub side: VmSide,
    /// Share to which the culprit's time belongs.
    pub share: Share,
    /// Name of the culprit. For the shares `kvm` and `vmm`, the reason of the exit. `None` if the
    /// culprit is unknown.
    pub name: Option<Name>,
    /// CPU of the guest or host on which the culprit ran; `None` if the share has no CPU.
    pub cpu: Option<u32>,
    /// Number of gaps or latencies in which the culprit took time.
    pub gaps: u64,
    /// Total time that the culprit took, in nanoseconds.
    pub total_ns: u64,
    /// Longest time that the culprit took from one gap or latency, in nanoseconds.
    pub max_ns: u64,
    /// `total_ns` in percent of the total length of all gaps or latencies above the threshold.
    pub percent: f64,
}

/// One exit of a vCPU within a gap or a phase of a wake-up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExitBranch {
    /// Reason of the exit.
    pub reason: String,
    /// Whether KVM passed the exit on to the VMM.
    pub heavy: bool,
    /// Host CPU on which the vCPU left its guest.
    pub exit_cpu: u32,
    /// Host CPU on which the vCPU returned to its guest.
    pub entry_cpu: u32,
    /// Time from the start of the gap to the start of the exit, in nanoseconds; 0 if the exit
    /// started earlier.
    pub after_ns: u64,
    /// Time of the exit in the gap or phase, in nanoseconds: the sum of `parts`. A sleep that the
    /// guest asked for during its own kernel's work is left out, because the guest's part has it.
    pub dur_ns: u64,
    /// Parts of the exit by share and culprit, largest first.
    #[serde(serialize_with = "on_host")]
    pub parts: Vec<NamedPart>,
    /// Pieces of the exit in time order, limited to the gap or phase.
    #[serde(skip)]
    pub pieces: Vec<NamedPiece>,
}

/// Serializes the parts of an exit for the JSON document of a join.
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
