//! Segments of a gap or wake-up with the guest's parts and the host's exits, before the gap or
//! wake-up itself is named.

use vmnoise_events::Share;

use super::branch::ExitBranch;
use super::tree::{JoinTree, Stretch};
use crate::attribute::{CutStretch, Explained};
use crate::host_exits::{HostExit, Overlap};
use crate::named::NamedInterval;
use crate::names::Names;
use crate::part::largest_first;
use crate::piece::NamedPiece;

/// Content of a [`JoinTree`] except its gap or wake-up.
#[derive(Debug)]
pub(super) struct Branches {
    stretches: Vec<Stretch>,
    residual: Share,
    witnessed: bool,
}

impl Branches {
    pub(super) fn new(explained: &Explained<'_>) -> Branches {
        let interval = explained.interval;
        let mut start_ns = interval.start_mono_ns;
        let stretches = explained.stretches.iter().filter_map(|cut| {
            let span_ns = (start_ns, start_ns + cut.dur_ns);
            start_ns = span_ns.1;
            // An empty phase is not shown. A gap is always one segment, however short.
            let is_shown = cut.dur_ns > 0 || interval.gap().is_some();
            is_shown.then(|| stretch(cut, span_ns, explained))
        });
        Branches {
            stretches: stretches.collect(),
            residual: explained.residual,
            witnessed: interval.witnessed,
        }
    }

    pub(super) fn of(self, of: NamedInterval) -> JoinTree {
        JoinTree {
            of,
            stretches: self.stretches,
            residual: self.residual,
            witnessed: self.witnessed,
        }
    }
}

fn stretch(cut: &CutStretch, span_ns: (u64, u64), explained: &Explained<'_>) -> Stretch {
    let Explained {
        interval,
        exits,
        names,
        ..
    } = *explained;
    let exits = exits[cut.exits.clone()].iter().zip(&cut.overlaps);
    let exits = exits.filter(|(_, overlap)| !overlap.parts.is_empty());
    let exits = exits.map(|(exit, overlap)| {
        let mut branch = branch(exit, overlap, (interval.start_mono_ns, span_ns), names);
        if interval.wakeup().is_some() {
            let pieces = branch.pieces.iter_mut();
            pieces.for_each(|piece| rename(piece, explained));
        }
        branch
    });
    Stretch {
        phase: cut.phase,
        dur_ns: cut.dur_ns,
        guest: names.parts(&cut.own),
        exits: exits.collect(),
        steal_ns: cut.steal_ns,
        residual_ns: cut.residual_ns,
    }
}

/// Renames the share of a piece like the parts of the wake-up: a residual gets the wake-up's
/// residual share, and a halt becomes blocked time.
fn rename(piece: &mut NamedPiece, late: &Explained<'_>) {
    if piece.share.is_residual() {
        piece.share = late.residual;
    } else if piece.share == Share::Halted {
        piece.share = Share::Blocked;
        piece.name = late.overslept.map(|id| late.names.shared(id));
    }
}

/// Returns the branch of one exit. `since_ns` is the start of the gap or latency, and `span_ns` are
/// the start and end of the segment.
fn branch(
    exit: &HostExit,
    overlap: &Overlap,
    (since_ns, span_ns): (u64, (u64, u64)),
    names: &Names,
) -> ExitBranch {
    let mut parts = overlap.parts.clone();
    largest_first(&mut parts);
    ExitBranch {
        reason: names.name(Some(exit.reason)).to_string(),
        heavy: exit.heavy,
        exit_cpu: exit.exit_cpu,
        entry_cpu: exit.entry_cpu,
        after_ns: exit.start_mono_ns.saturating_sub(since_ns),
        dur_ns: parts.iter().map(|part| part.ns).sum(),
        parts: parts.iter().map(|part| names.part(part)).collect(),
        pieces: pieces(exit, span_ns, names),
    }
}

/// Returns the pieces of an exit, limited to the time from `from_ns` to `until_ns`.
fn pieces(exit: &HostExit, (from_ns, until_ns): (u64, u64), names: &Names) -> Vec<NamedPiece> {
    let inside = exit.pieces.iter().map(|piece| NamedPiece {
        start_mono_ns: piece.start_mono_ns.max(from_ns),
        end_mono_ns: piece.end_mono_ns.min(until_ns),
        ..piece.named(names)
    });
    let inside = inside.filter(|piece| piece.start_mono_ns < piece.end_mono_ns);
    inside.collect()
}
