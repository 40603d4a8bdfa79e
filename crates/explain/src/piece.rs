//! Stretches of an exit that one had for himself.

use std::sync::Arc;

use vmnoise_events::{Share, SourceId};

use crate::names::Names;

/// One of them, on the clock of whoever tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) start_mono_ns: u64,
    pub(crate) end_mono_ns: u64,
    /// The host's CPU on which that was.
    pub(crate) cpu: u32,
    /// In an exit that a gap meets, `unexplained` stands for the residual of that gap.
    pub(crate) share: Share,
    /// Who had it.
    pub(crate) source: Option<SourceId>,
    /// When the activity began that had it, or else the stretch: turns of one source are
    /// told apart by it.
    pub(crate) since_ns: u64,
    /// Whether the vCPU could have run, and was off its CPU: its steal clock went on.
    pub(crate) waits: bool,
}

impl Piece {
    pub(crate) fn dur_ns(&self) -> u64 {
        self.end_mono_ns - self.start_mono_ns
    }

    pub(crate) fn named(&self, names: &Names) -> NamedPiece {
        NamedPiece {
            start_mono_ns: self.start_mono_ns,
            end_mono_ns: self.end_mono_ns,
            cpu: self.cpu,
            share: self.share,
            name: self.source.and_then(|id| names.known(id)),
        }
    }
}

/// One of them, with the name of who had it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPiece {
    /// Begin, CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// End, CLOCK_MONOTONIC in nanoseconds.
    pub end_mono_ns: u64,
    /// The host's CPU on which that was.
    pub cpu: u32,
    /// Under which name it is booked.
    pub share: Share,
    /// Who; of `kvm` and `vmm` in a gap the reason of the exit; `None` where nobody is named.
    pub name: Option<Arc<str>>,
}

impl NamedPiece {
    /// Length in nanoseconds.
    pub fn dur_ns(&self) -> u64 {
        self.end_mono_ns - self.start_mono_ns
    }
}
