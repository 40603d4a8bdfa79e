//! Losses of one of this machine's own CPUs.

use super::wire::{WireCpu, WireLengths};
use crate::gate::lengths::WaitLengths;

/// Losses of one kind: their total length, and their number by length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakenOfKind {
    /// Total length of the losses, in ns.
    pub ns: u64,
    /// Number of losses by length.
    pub lengths: WaitLengths,
}

impl TakenOfKind {
    fn read(wire: &WireLengths) -> TakenOfKind {
        TakenOfKind {
            ns: wire.ns,
            lengths: WaitLengths::new(wire.counts),
        }
    }

    /// Returns a sum of no losses.
    pub fn none() -> TakenOfKind {
        TakenOfKind {
            ns: 0,
            lengths: WaitLengths::none(),
        }
    }

    /// Adds the losses in `more`.
    pub fn add(&mut self, more: &TakenOfKind) {
        self.ns += more.ns;
        self.lengths.add(&more.lengths);
    }
}

/// Losses of a CPU since the programs were first attached, except in pauses. A total and its
/// numbers by length may be from slightly different instants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnCpuBooks {
    /// Losses to the hypervisor, by the steal clock. Each increase of the clock between two
    /// readings counts as one loss.
    pub steal: TakenOfKind,
    /// Losses to interrupts, each without the steal time and the nested interrupts during it.
    pub irq: TakenOfKind,
    /// Losses to softirqs, each without the steal time and the interrupts during it.
    pub softirq: TakenOfKind,
    /// Waits of tasks for this CPU. A wait lasts from entering the CPU's queue until getting the
    /// CPU. `None` if this kernel does not store when a task entered the queue.
    pub waits: Option<TakenOfKind>,
}

impl OwnCpuBooks {
    pub(super) fn read(wire: &WireCpu, tells_waits: bool) -> OwnCpuBooks {
        OwnCpuBooks {
            steal: TakenOfKind::read(&wire.steal),
            irq: TakenOfKind::read(&wire.irq),
            softirq: TakenOfKind::read(&wire.softirq),
            waits: tells_waits.then(|| TakenOfKind::read(&wire.wait)),
        }
    }
}
