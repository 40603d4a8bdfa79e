//! What a gap, or a phase of a wake-up, has of its host: exits with their parts, who took how
//! much, and what the clocks are too coarse for.

use serde::{Serialize, Serializer};
use vmnoise_events::{Name, Share};

use crate::named::NamedPart;
use crate::piece::NamedPiece;

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
    #[serde(serialize_with = "on_host")]
    pub parts: Vec<NamedPart>,
    /// What of it lies in the gap, or in the phase, piece by piece.
    #[serde(skip)]
    pub pieces: Vec<NamedPiece>,
}

/// Parts as the document of a join has those of an exit.
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
