//! Time that was taken from one of this machine's own CPUs.

use super::wire::{WireCpu, WireLengths};
use crate::gate::lengths::WaitLengths;

/// Total length of the losses of one kind, and the number of losses by length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Total length, in ns.
    pub ns: u64,
    /// Number by length.
    pub lengths: WaitLengths,
}

impl Taken {
    fn read(wire: &WireLengths) -> Taken {
        Taken {
            ns: wire.ns,
            lengths: WaitLengths::new(wire.counts),
        }
    }

    /// Returns an empty sum.
    pub fn none() -> Taken {
        Taken {
            ns: 0,
            lengths: WaitLengths::none(),
        }
    }

    /// Adds the sums of other losses.
    pub fn add(&mut self, more: &Taken) {
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
    pub steal: Taken,
    /// Losses to interrupts, each net of steal time and of nested interrupts.
    pub irq: Taken,
    /// Losses to softirqs, each net of steal time and of interrupts.
    pub softirq: Taken,
    /// Waits of tasks for this CPU, from when they were put on its queue until they had it; `None`
    /// if this kernel does not store when that was.
    pub waits: Option<Taken>,
}

impl OwnCpuBooks {
    pub(super) fn read(wire: &WireCpu, tells_waits: bool) -> OwnCpuBooks {
        OwnCpuBooks {
            steal: Taken::read(&wire.steal),
            irq: Taken::read(&wire.irq),
            softirq: Taken::read(&wire.softirq),
            waits: tells_waits.then(|| Taken::read(&wire.wait)),
        }
    }
}
