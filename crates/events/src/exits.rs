//! Exits of virtual CPUs. BPF programs count the exits in the kernel.

use std::borrow::Cow;

use crate::{ExitReason, Share, ShareMap, VcpuId};

/// One exit: the time from the host's first event of the exit until the guest runs again.
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
    /// Whether the VMM handled the exit.
    pub heavy: bool,
    /// Time of the exit by share, in nanoseconds. All shares add up to the length of the exit.
    pub split: ShareMap<u64>,
}

impl Exit {
    /// Returns the length in nanoseconds.
    pub const fn dur_ns(&self) -> u64 {
        self.end_mono_ns.saturating_sub(self.start_mono_ns)
    }

    /// Returns the overhead of the exit, in nanoseconds, as the thesis defines it: the time that
    /// the vCPU's own thread spent on the exit.
    pub fn overhead_ns(&self) -> u64 {
        self.split.sum(&[Share::Kvm, Share::Vmm])
    }
}

/// One exit of one vCPU. The event is reported after the end of the exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VcpuExit {
    /// The vCPU that left its guest.
    pub vcpu: VcpuId,
    /// The exit. Its `split` is exact even if the stream lost records.
    pub exit: Exit,
}

/// All exits of a vCPU for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReasonTotals {
    /// The reason; `None` for the sum of the exits whose reasons did not fit in the kernel's table.
    pub reason: Option<ExitReason>,
    /// Number of exits.
    pub count: u64,
    /// Number of exits that the VMM handled.
    pub heavy: u64,
    /// Length of the shortest exit, in nanoseconds.
    pub min_ns: u64,
    /// Length of the longest exit, in nanoseconds.
    pub max_ns: u64,
    /// Time of the exits by share, in nanoseconds. All shares add up to the total length of the
    /// exits.
    pub split: ShareMap<u64>,
    /// Histogram of the lengths, ascending. Each pair is a bucket that is not empty: its upper edge
    /// (inclusive) in nanoseconds, and its number of exits. Edges are a quarter of a power of two
    /// apart.
    pub histogram: Vec<(u64, u64)>,
}

impl ReasonTotals {
    /// Returns the name of the reason in results; `others` if the reason is unknown.
    pub fn name(&self) -> Cow<'static, str> {
        self.reason.map_or("others".into(), |reason| reason.name())
    }
}

/// All exits of one vCPU so far. The kernel counts them, so the totals are exact even if the stream
/// lost records. Later totals replace earlier totals of the same vCPU.
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
    /// Number of exits that the VMM handled.
    pub heavy: u64,
    /// Time of all exits by share, in nanoseconds.
    pub split: ShareMap<u64>,
    /// Unobserved time, in nanoseconds. It may belong to the guest or to an exit, because a context
    /// switch of the thread or the end of an exit was missed.
    pub unseen_ns: u64,
    /// The exit with the greatest length without halts. It is boxed, because every `Event` needs as
    /// much memory as the largest variant.
    pub worst: Option<Box<Exit>>,
    /// Totals by reason, in no particular order.
    pub reasons: Vec<ReasonTotals>,
}
