//! Up to where a stream can be explained.

use crate::clockmap::ClockMap;

/// How far the stream has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Horizon {
    /// Everything before this instant (CLOCK_MONOTONIC, ns) is there.
    To(u64),
    /// Nothing more comes.
    End,
}

impl Horizon {
    pub(crate) fn mono_ns(self) -> u64 {
        match self {
            Horizon::To(mono_ns) => mono_ns,
            Horizon::End => u64::MAX,
        }
    }

    /// An instant by which everything is there.
    pub(crate) fn holds(self, mono_ns: u64) -> Option<u64> {
        (mono_ns <= self.mono_ns()).then_some(mono_ns)
    }

    /// Whether the place of this reading on the clock is final.
    pub(crate) fn dates(self, tsc: u64, clock: &ClockMap) -> bool {
        self == Horizon::End || clock.covers(tsc)
    }
}
