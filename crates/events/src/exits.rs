//! Exits of virtual CPUs, counted where they happen.

use std::borrow::Cow;

use crate::{ExitReason, Share, ShareMap, VcpuId};

/// One exit, from the host's first event of it until the guest runs again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Start, CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// End, CLOCK_MONOTONIC in nanoseconds.
    pub end_mono_ns: u64,
    /// Reason of the exit.
    pub reason: ExitReason,
    /// CPU on which the vCPU left its guest.
    pub exit_cpu: u32,
    /// CPU on which the vCPU returned to its guest.
    pub entry_cpu: u32,
    /// Whether the exit went to the VMM.
    pub heavy: bool,
    /// Time by share, in nanoseconds. The shares add up to the length of the exit.
    pub split: ShareMap<u64>,
}

impl Exit {
    /// Returns the length in nanoseconds.
    pub const fn dur_ns(&self) -> u64 {
        self.end_mono_ns.saturating_sub(self.start_mono_ns)
    }

    /// Returns the overhead as the thesis defines it: the time that the vCPU's own thread spent on
    /// the exit, in nanoseconds.
    pub fn overhead_ns(&self) -> u64 {
        self.split.sum(&[Share::Kvm, Share::Vmm])
    }
}

/// One exit of one vCPU. The event comes when the exit is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VcpuExit {
    /// The vCPU that left its guest.
    pub vcpu: VcpuId,
    /// The exit. Its split is exact even if the stream lost records.
    pub exit: Exit,
}

/// All exits of a vCPU for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReasonTotals {
    /// The reason; `None` for the sum of all exits whose reasons did not fit in the table.
    pub reason: Option<ExitReason>,
    /// Number of exits.
    pub count: u64,
    /// Number of exits that went to the VMM.
    pub heavy: u64,
    /// Length of the shortest exit, in nanoseconds.
    pub min_ns: u64,
    /// Length of the longest exit, in nanoseconds.
    pub max_ns: u64,
    /// Time by share, in nanoseconds. The shares add up to the length of all counted exits.
    pub split: ShareMap<u64>,
    /// Histogram of lengths: (upper edge in nanoseconds, number of exits at or below this edge), by
    /// ascending edge. Edges are a quarter of a power of two apart.
    pub histogram: Vec<(u64, u64)>,
}

impl ReasonTotals {
    /// Returns the name that results show.
    pub fn name(&self) -> Cow<'static, str> {
        self.reason.map_or("others".into(), |reason| reason.name())
    }
}

/// All exits of one vCPU so far, counted where they happen: exact even if the stream lost records.
/// Later totals replace earlier ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VcpuTotals {
    /// The vCPU.
    pub vcpu: VcpuId,
    /// Time of the vCPU's first event, CLOCK_MONOTONIC in nanoseconds; 0 if there was no event.
    pub first_mono_ns: u64,
    /// Time at which the vCPU last entered its guest, CLOCK_MONOTONIC in nanoseconds.
    pub last_mono_ns: u64,
    /// Number of exits.
    pub exits: u64,
    /// Number of exits that went to the VMM.
    pub heavy: u64,
    /// Time of all exits by share, in nanoseconds.
    pub split: ShareMap<u64>,
    /// Unobserved time, in nanoseconds: it belongs to the guest or to an exit. The thread's
    /// switches or an end of an exit were missed.
    pub unseen_ns: u64,
    /// The longest exit, by its length without halts. It is boxed, because every `Event` needs as
    /// much memory as the largest one.
    pub worst: Option<Box<Exit>>,
    /// Totals by reason, in no particular order.
    pub reasons: Vec<ReasonTotals>,
}
