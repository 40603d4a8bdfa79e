//! Joins pieces of lost time to the windows in which a vCPU's thread was off its CPU. Pure.

use vmnoise_events::{Exit, ExitReason, Share, ShareMap};
use vmnoise_tracer::{GateVcpuId, LostPiece, PieceKind};

/// Consecutive pieces of one vCPU without a hole; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) vcpu: GateVcpuId,
    pub(super) pieces: Vec<LostPiece>,
}

impl Stretch {
    /// Returns the exit in which the thread was off its CPU. Time with unknown cause counts as
    /// `kvm`, which is the residual of an exit.
    pub(super) fn exit(&self) -> Exit {
        let (first, last) = (&self.pieces[0], &self.pieces[self.pieces.len() - 1]);
        let mut split = ShareMap::default();
        for piece in &self.pieces {
            split[share(piece.kind)] += length_ns(piece);
        }
        Exit {
            start_mono_ns: first.from_mono_ns,
            end_mono_ns: last.until_mono_ns,
            reason: ExitReason::OFF_CPU,
            exit_cpu: first.cpu,
            entry_cpu: last.cpu,
            heavy: false,
            split,
        }
    }
}

pub(super) fn length_ns(piece: &LostPiece) -> u64 {
    piece.until_mono_ns.saturating_sub(piece.from_mono_ns)
}

/// Returns the share of a piece. If it is unknown who had the CPU, no culprit is named.
fn share(kind: PieceKind) -> Share {
    match kind {
        PieceKind::Ran => Share::Preempted,
        PieceKind::Throttled => Share::Throttled,
        PieceKind::Blocked => Share::Blocked,
        PieceKind::Idle | PieceKind::Unsure | PieceKind::Unknown => Share::Kvm,
    }
}

/// Returns the windows that begin at `from_mono_ns` or later, in the order of their ends.
pub(super) fn stretches(mut pieces: Vec<LostPiece>, from_mono_ns: u64) -> Vec<Stretch> {
    pieces.retain(|piece| piece.from_mono_ns < piece.until_mono_ns);
    pieces.sort_by_key(|piece| (piece.vcpu, piece.from_mono_ns, piece.until_mono_ns));
    let mut all: Vec<Stretch> = Vec::new();
    for piece in pieces {
        match all.last_mut() {
            Some(stretch)
                if stretch.vcpu == piece.vcpu
                    && stretch
                        .pieces
                        .last()
                        .is_some_and(|last| last.until_mono_ns == piece.from_mono_ns) =>
            {
                stretch.pieces.push(piece);
            }
            _ => all.push(Stretch {
                vcpu: piece.vcpu,
                pieces: vec![piece],
            }),
        }
    }
    all.retain(|stretch| stretch.pieces[0].from_mono_ns >= from_mono_ns);
    all.sort_by_key(|stretch| {
        let last = stretch.pieces.last();
        (last.map(|piece| piece.until_mono_ns), stretch.vcpu)
    });
    all
}
