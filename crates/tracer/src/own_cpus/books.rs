//! What was taken from one of this machine's own CPUs.

use super::wire::{WireCpu, WireLengths};
use crate::gate::lengths::WaitLengths;

/// Of one kind: how long all of it was, and how many were how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// All together.
    pub ns: u64,
    /// Single ones.
    pub lengths: WaitLengths,
}

impl Taken {
    fn read(wire: &WireLengths) -> Taken {
        Taken {
            ns: wire.ns,
            lengths: WaitLengths::new(wire.counts),
        }
    }

    /// Nothing.
    pub fn none() -> Taken {
        Taken {
            ns: 0,
            lengths: WaitLengths::none(),
        }
    }

    /// This too.
    pub fn add(&mut self, more: &Taken) {
        self.ns += more.ns;
        self.lengths.add(&more.lengths);
    }
}

/// What a CPU lost since its programs were first attached, but for pauses. A sum and its lengths may be of
/// instants a moment apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnCpuBooks {
    /// To the hypervisor, by the steal clock. A loss is what that clock was ahead of its last reading.
    pub steal: Taken,
    /// To interrupts, each net of steal and of those that interrupted it.
    pub irq: Taken,
    /// To soft interrupts, each net of steal and of interrupts.
    pub softirq: Taken,
    /// How long tasks waited for it, from when they were on its queue until they had it; `None` where this kernel
    /// does not keep since when they are.
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
