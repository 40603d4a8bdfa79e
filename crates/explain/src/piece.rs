//! Pieces of an exit. Each piece is a window of time with one owner.

use std::sync::Arc;

use vmnoise_events::{Share, SourceId};

use crate::names::Names;

/// Piece of an exit. Times are on the clock of the recording that reports the exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) start_mono_ns: u64,
    pub(crate) end_mono_ns: u64,
    /// Host CPU on which the time was spent.
    pub(crate) cpu: u32,
    /// Share of the piece. In an exit that overlaps a gap, `unexplained` stands for the residual of
    /// that gap.
    pub(crate) share: Share,
    /// Source that used the time.
    pub(crate) source: Option<SourceId>,
    /// Start of the activity that used the time, or of the segment. This start distinguishes
    /// several runs of one source.
    pub(crate) since_ns: u64,
    /// Whether the vCPU was runnable but off its CPU, so that its steal clock advanced.
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

/// A piece with the name of its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPiece {
    /// Start, CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// End, CLOCK_MONOTONIC in nanoseconds.
    pub end_mono_ns: u64,
    /// Host CPU on which the time was spent.
    pub cpu: u32,
    /// Share of the piece.
    pub share: Share,
    /// Name of the owner. For `kvm` and `vmm` in a gap, this is the reason of the exit. `None` if
    /// the owner is unknown.
    pub name: Option<Arc<str>>,
}

impl NamedPiece {
    /// Returns the length in nanoseconds.
    pub fn dur_ns(&self) -> u64 {
        self.end_mono_ns - self.start_mono_ns
    }
}
