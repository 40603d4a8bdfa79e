//! Joins adjacent pieces of lost time to windows in which a vCPU's thread was off its CPU. Pure.

use vmnoise_events::{Exit, ExitReason, Share, ShareMap};
use vmnoise_tracer::{GateVcpuId, LostPiece, PieceKind};

/// Adjacent pieces of one vCPU. There is at least one piece, and no gap between two pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) vcpu: GateVcpuId,
    pub(super) pieces: Vec<LostPiece>,
}

impl Stretch {
    /// Returns this window as an exit. Time with an unknown cause becomes `kvm`, the share for the
    /// rest of an exit.
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

/// Returns the share of a piece. A piece without a known cause has the share `kvm`.
fn share(kind: PieceKind) -> Share {
    match kind {
        PieceKind::Ran => Share::Preempted,
        PieceKind::Throttled => Share::Throttled,
        PieceKind::Blocked => Share::Blocked,
        PieceKind::Idle | PieceKind::Unsure | PieceKind::Unknown => Share::Kvm,
    }
}

/// Returns the windows that begin at `from_mono_ns` or later, ordered by their ends.
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
