//! Report of a host to a guest about one of its vCPUs, while both run.

use serde::{Deserialize, Serialize};

use crate::{Name, Share, ShareMap};

/// Amount of detail that a host sends to a guest. Each level includes all smaller levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum FeedDetail {
    /// Number of exits, and time by share.
    Counts = 0,
    /// `Counts` for each exit reason.
    Reasons = 1,
    /// Names of the host's tasks and interrupts.
    Full = 2,
}

impl FeedDetail {
    /// Every level, ordered by its number in frames and recordings.
    pub const ALL: [FeedDetail; 3] = [FeedDetail::Counts, FeedDetail::Reasons, FeedDetail::Full];

    /// Returns the level with this number, or `None` if this version does not know the number.
    pub fn from_number(number: u8) -> Option<FeedDetail> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns the word for this level in options and results.
    pub const fn name(self) -> &'static str {
        match self {
            FeedDetail::Counts => "counts",
            FeedDetail::Reasons => "reasons",
            FeedDetail::Full => "full",
        }
    }
}

/// All exits of one vCPU since its host began to count them. A later frame replaces an earlier one;
/// the difference of two frames covers the time between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFrame {
    /// The vCPU's number in its VM: the APIC id of the guest's CPU.
    pub vcpu: u32,
    /// Start of the count, in the guest's own TSC.
    pub from_tsc: u64,
    /// End of the count, in the guest's own TSC.
    pub until_tsc: u64,
    /// Detail of the host's report.
    pub detail: FeedDetail,
    /// Whether exits handled in the host kernel are seen (not under kvm_pvm). If not, `exits` and
    /// `split` hold only exits that went to the VMM.
    pub sees_kvm: bool,
    /// Whether the host runs on bare metal. If not, time that neither the guest nor the host took
    /// may belong to another hypervisor and must not be called hardware.
    pub is_last: bool,
    /// Number of exits.
    pub exits: u64,
    /// Number of exits that went to the VMM.
    pub heavy: u64,
    /// Time of the exits by share, in nanoseconds.
    pub split: ShareMap<u64>,
    /// Records that the host lost in this time: names may be missing, amounts are complete.
    pub lost: u64,
    /// Exits by reason, the most expensive first; empty at [`FeedDetail::Counts`].
    pub reasons: Vec<HostReason>,
    /// Culprits, the most expensive first; empty below [`FeedDetail::Full`].
    pub culprits: Vec<HostCulprit>,
}

/// Totals of a host's feed since the guest began to read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FeedTotals {
    /// Number of bytes that the guest read from the feed.
    pub bytes: u64,
    /// Number of frames that arrived completely and without damage.
    pub frames: u64,
    /// Damaged frames, frames of an unknown kind, and byte runs that are no frame.
    pub garbled: u64,
    /// Number of times that the host hung up.
    pub hang_ups: u64,
}

/// All exits for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostReason {
    /// Name of the exit reason, as in results.
    pub name: Name,
    /// Number of exits.
    pub exits: u64,
    /// Total time, in nanoseconds, without halts.
    pub dur_ns: u64,
}

/// One of the host's tasks, interrupts or softirqs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCulprit {
    /// Share to which the time of the culprit belongs.
    pub share: Share,
    /// Name of the culprit on the host (`comm:pid`, `local_timer:236`, `NET_RX:3`).
    pub name: Name,
    /// Time taken, in nanoseconds.
    pub dur_ns: u64,
}
