//! What a host reports to a guest of one of its vCPUs while both run.

use serde::{Deserialize, Serialize};

use crate::{Name, Share, ShareMap};

/// How much of itself a host lets a guest see. Each level shows what the ones before show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum FeedDetail {
    /// How many exits, and which share took how much time.
    Counts = 0,
    /// As `Counts`, for each reason.
    Reasons = 1,
    /// The names of the host's tasks and interrupts.
    Full = 2,
}

impl FeedDetail {
    /// Every level, by its number in frames and recordings.
    pub const ALL: [FeedDetail; 3] = [FeedDetail::Counts, FeedDetail::Reasons, FeedDetail::Full];

    /// The level with this number, or `None` for a number this version does not know.
    pub fn from_number(number: u8) -> Option<FeedDetail> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The word for it in options and results.
    pub const fn name(self) -> &'static str {
        match self {
            FeedDetail::Counts => "counts",
            FeedDetail::Reasons => "reasons",
            FeedDetail::Full => "full",
        }
    }
}

/// All exits of one vCPU since its host began to count them. A later frame replaces an
/// earlier one, and the difference of two is what lies between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFrame {
    /// The vCPU's number in its VM: the APIC id of the guest's CPU.
    pub vcpu: u32,
    /// When the count began, in the guest's own TSC.
    pub from_tsc: u64,
    /// Up to when it goes, in the guest's own TSC.
    pub until_tsc: u64,
    /// The detail that the host reports.
    pub detail: FeedDetail,
    /// Whether exits handled in the host kernel are seen: not under kvm_pvm. `exits` and
    /// `split` hold only what went to the VMM where not.
    pub sees_kvm: bool,
    /// Whether nothing is below the host: it runs on bare metal. Where not, what neither the
    /// guest nor the host took may be another hypervisor's, and cannot be called hardware's.
    pub is_last: bool,
    /// How many exits.
    pub exits: u64,
    /// How many of them went to the VMM.
    pub heavy: u64,
    /// Where their time went, nanoseconds.
    pub split: ShareMap<u64>,
    /// Records that the host lost meanwhile: names may be missing, amounts never.
    pub lost: u64,
    /// By reason, the most expensive first; empty at [`FeedDetail::Counts`].
    pub reasons: Vec<HostReason>,
    /// Who took the time, the most expensive first; empty below [`FeedDetail::Full`].
    pub culprits: Vec<HostCulprit>,
}

/// What has come of a host's feed since the guest began to read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FeedTotals {
    /// Bytes read.
    pub bytes: u64,
    /// Frames among them that were whole and undamaged.
    pub frames: u64,
    /// Frames that were damaged or of an unknown kind, and stretches that were no frame.
    pub garbled: u64,
    /// How often the host hung up.
    pub hang_ups: u64,
}

/// All exits for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostReason {
    /// The reason, as results name it.
    pub name: Name,
    /// How many.
    pub exits: u64,
    /// How long they were together, nanoseconds; halts not counted.
    pub dur_ns: u64,
}

/// One of the host's tasks, interrupts or soft interrupts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCulprit {
    /// What kind of time it took.
    pub share: Share,
    /// The host's name of it (`comm:pid`, `local_timer:236`, `NET_RX:3`).
    pub name: Name,
    /// How much, nanoseconds.
    pub dur_ns: u64,
}
