//! Time up to which a stream can be explained.

use crate::clockmap::ClockMap;

/// Progress of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Horizon {
    /// Everything before this time (CLOCK_MONOTONIC, ns) has arrived.
    To(u64),
    /// The stream has ended.
    End,
}

impl Horizon {
    pub(crate) fn mono_ns(self) -> u64 {
        match self {
            Horizon::To(mono_ns) => mono_ns,
            Horizon::End => u64::MAX,
        }
    }

    /// Returns `mono_ns` if everything before this time has arrived.
    pub(crate) fn holds(self, mono_ns: u64) -> Option<u64> {
        (mono_ns <= self.mono_ns()).then_some(mono_ns)
    }

    /// Returns whether the time of this TSC reading is final: no later anchor can change it.
    pub(crate) fn dates(self, tsc: u64, clock: &ClockMap) -> bool {
        self == Horizon::End || clock.covers(tsc)
    }
}
