//! Exits of virtual CPUs, as counted where they happen.

use std::borrow::Cow;

use crate::{ExitReason, Share, ShareMap, VcpuId};

/// One exit, from the first sign of the host to the guest's return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Begin, CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// End, CLOCK_MONOTONIC in nanoseconds.
    pub end_mono_ns: u64,
    /// Why.
    pub reason: ExitReason,
    /// The CPU it left from.
    pub exit_cpu: u32,
    /// The CPU it returned on.
    pub entry_cpu: u32,
    /// Whether it went to the VMM.
    pub heavy: bool,
    /// Where its time went, in nanoseconds: adds up to its length.
    pub split: ShareMap<u64>,
}

impl Exit {
    /// Length in nanoseconds.
    pub const fn dur_ns(&self) -> u64 {
        self.end_mono_ns.saturating_sub(self.start_mono_ns)
    }

    /// What the thesis calls overhead, in nanoseconds: the time that the vCPU's own thread spent
    /// on it.
    pub fn overhead_ns(&self) -> u64 {
        self.split.sum(&[Share::Kvm, Share::Vmm])
    }
}

/// One exit of one vCPU. It comes when it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VcpuExit {
    /// Whose.
    pub vcpu: VcpuId,
    /// The exit; its split is exact, whatever was lost of the stream.
    pub exit: Exit,
}

/// All exits of a vCPU for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReasonTotals {
    /// The reason; `None` is all those that found no place of their own.
    pub reason: Option<ExitReason>,
    /// How many.
    pub count: u64,
    /// How many of them went to the VMM.
    pub heavy: u64,
    /// The shortest, in nanoseconds.
    pub min_ns: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
    /// Where their time went, in nanoseconds; its total is theirs.
    pub split: ShareMap<u64>,
    /// Lengths: how many lie at or below each upper edge (nanoseconds), by ascending edge;
    /// edges a quarter of a power of two apart.
    pub histogram: Vec<(u64, u64)>,
}

impl ReasonTotals {
    /// The name that results show.
    pub fn name(&self) -> Cow<'static, str> {
        self.reason.map_or("others".into(), |reason| reason.name())
    }
}

/// All exits of one vCPU so far, counted where they happen: exact, whatever was lost of
/// the stream. Later ones replace earlier ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VcpuTotals {
    /// Whose.
    pub vcpu: VcpuId,
    /// When it was first seen, CLOCK_MONOTONIC in nanoseconds; 0 if it never was.
    pub first_mono_ns: u64,
    /// When it last entered, CLOCK_MONOTONIC in nanoseconds.
    pub last_mono_ns: u64,
    /// How many exits.
    pub exits: u64,
    /// How many of them went to the VMM.
    pub heavy: u64,
    /// Where their time went, in nanoseconds.
    pub split: ShareMap<u64>,
    /// Time of which nobody knows what it was, the guest's or an exit's: its thread's switches
    /// or an end of an exit were not seen.
    pub unseen_ns: u64,
    /// The longest, halts not counted. In a place of its own: every event is as large as the largest.
    pub worst: Option<Box<Exit>>,
    /// By reason, in no order.
    pub reasons: Vec<ReasonTotals>,
}
