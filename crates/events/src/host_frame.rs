//! Report that a host sends to a guest about one of the guest's vCPUs, while both run.

use serde::{Deserialize, Serialize};

use crate::{Name, Share, ShareMap};

/// Amount of detail that a host sends to a guest. Each level includes all levels before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum FeedDetail {
    /// Number of exits, and time of the exits by share.
    Counts = 0,
    /// In addition, number and time of the exits for each exit reason.
    Reasons = 1,
    /// In addition, names of the host's tasks and interrupts.
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

/// All exits of one vCPU since its host began to count them. A later frame replaces an earlier
/// frame of the same vCPU. The difference of two frames covers the time between the frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFrame {
    /// The vCPU's number in its VM: the APIC id of the guest's CPU.
    pub vcpu: u32,
    /// Start of the count, in cycles of the guest's own TSC.
    pub from_tsc: u64,
    /// End of the count, in cycles of the guest's own TSC.
    pub until_tsc: u64,
    /// Amount of detail in this report.
    pub detail: FeedDetail,
    /// Whether the host sees exits that its kernel handles (not under kvm_pvm). If not, `exits` and
    /// `split` contain only exits that the VMM handled.
    pub sees_kvm: bool,
    /// Whether the host runs on bare metal. If not, another hypervisor is below the host. Time that
    /// neither the guest nor the host took may then belong to this hypervisor, not to the hardware.
    pub is_last: bool,
    /// Number of exits.
    pub exits: u64,
    /// Number of exits that the VMM handled.
    pub heavy: u64,
    /// Time of the exits by share, in nanoseconds.
    pub split: ShareMap<u64>,
    /// Number of records that the host lost since the start of the count. Names may be missing, but
    /// the amounts are complete.
    pub lost: u64,
    /// Exits by reason, ordered by total time, largest first; empty at [`FeedDetail::Counts`].
    pub reasons: Vec<HostReason>,
    /// Culprits, ordered by the time that they took, largest first; empty below
    /// [`FeedDetail::Full`].
    pub culprits: Vec<HostCulprit>,
}

/// Totals of a host's feed since the guest began to read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FeedTotals {
    /// Number of bytes that the guest read from the feed.
    pub bytes: u64,
    /// Number of complete and undamaged frames.
    pub frames: u64,
    /// Number of damaged frames, of frames of an unknown kind, and of byte sequences that are no
    /// frame.
    pub garbled: u64,
    /// Number of times that the host closed the connection.
    pub hang_ups: u64,
}

/// All exits for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostReason {
    /// Name of the exit reason, as in results.
    pub name: Name,
    /// Number of exits.
    pub exits: u64,
    /// Total time of these exits, in nanoseconds, without halts.
    pub dur_ns: u64,
}

/// A task, interrupt or softirq of the host that took time from the vCPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCulprit {
    /// Share to which the time of the culprit belongs.
    pub share: Share,
    /// Name of the culprit on the host (`comm:pid`, `local_timer:236`, `NET_RX:3`).
    pub name: Name,
    /// Time taken, in nanoseconds.
    pub dur_ns: u64,
}
