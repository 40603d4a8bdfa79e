//! Time that was taken from one of this machine's own CPUs.

use super::wire::{WireCpu, WireLengths};
use crate::gate::lengths::WaitLengths;

/// Total length of the losses of one kind, and the number of losses by length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakenOfKind {
    /// Total length, in ns.
    pub ns: u64,
    /// Number by length.
    pub lengths: WaitLengths,
}

impl TakenOfKind {
    fn read(wire: &WireLengths) -> TakenOfKind {
        TakenOfKind {
            ns: wire.ns,
            lengths: WaitLengths::new(wire.counts),
        }
    }

    /// Returns an empty sum.
    pub fn none() -> TakenOfKind {
        TakenOfKind {
            ns: 0,
            lengths: WaitLengths::none(),
        }
    }

    /// Adds the sums of other losses.
    pub fn add(&mut self, more: &TakenOfKind) {
        self.ns += more.ns;
        self.lengths.add(&more.lengths);
    }
}

/// Losses of a CPU since the programs were first attached, without pauses. A sum and its lengths
/// may be from slightly different instants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnCpuBooks {
    /// Losses to the hypervisor, by the steal clock. A loss is one advance of the clock between two
    /// readings.
    pub steal: TakenOfKind,
    /// Losses to interrupts, each net of steal time and of nested interrupts.
    pub irq: TakenOfKind,
    /// Losses to softirqs, each net of steal time and of interrupts.
    pub softirq: TakenOfKind,
    /// Waits of tasks for this CPU, from when they were put on its queue until they had it; `None`
    /// if this kernel does not store when that was.
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
