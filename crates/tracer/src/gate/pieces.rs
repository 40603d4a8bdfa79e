//! Recent losses of vCPUs, piece by piece. They are read from ring buffers that BPF programs write.

use std::mem::offset_of;
use std::sync::atomic::{
    Ordering::{Acquire, Relaxed},
    fence,
};

use vmnoise_events::Name;

use super::books::{GateVcpuId, name};
use super::piece_kind::{PieceKind, TURN};
use super::wire::{WireCpu, WirePiece};
use crate::mapped_array::MappedArray;
use crate::plain;

/// Number of words of one piece in a ring.
const WORDS: usize = size_of::<WirePiece>() / size_of::<u64>();

/// A task that had a CPU while a vCPU waited for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Runner {
    /// Name of the task's process.
    pub name: Name,
    /// The thread's id.
    pub tid: u32,
    /// Id of the vCPU, if the task is the thread of a vCPU.
    pub vcpu: Option<GateVcpuId>,
}

/// A part of a vCPU's wait, or a vCPU's sleep inside KVM. Times are CLOCK_MONOTONIC in ns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostPiece {
    /// The vCPU that lost this time.
    pub vcpu: GateVcpuId,
    /// Kind of the lost time.
    pub kind: PieceKind,
    /// CPU for which the vCPU waited, or on which it fell asleep.
    pub cpu: u32,
    /// Begin of the piece, CLOCK_MONOTONIC in ns.
    pub from_mono_ns: u64,
    /// End of the piece, CLOCK_MONOTONIC in ns.
    pub until_mono_ns: u64,
    /// Task that had the CPU; `None` if no task had it or the task is unknown.
    pub runner: Option<Runner>,
}

/// Recent pieces of lost time of all vCPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LostPieces {
    /// The pieces, in no particular order.
    pub pieces: Vec<LostPiece>,
    /// Begin of the time without overwritten pieces, CLOCK_MONOTONIC in ns; 0 if no piece was ever
    /// overwritten. Each later finished wait is included if it was at least [`super::TOLD_FROM_NS`]
    /// long.
    pub whole_from_mono_ns: u64,
}

/// The ring buffers of all CPUs.
#[derive(Debug)]
pub(super) struct Rings {
    pieces: MappedArray<WirePiece>,
    each: u32,
}

impl Rings {
    /// Creates the reader of the ring buffers. `each` is the number of pieces that each CPU keeps.
    pub(super) fn new(pieces: MappedArray<WirePiece>, each: u32) -> Rings {
        Rings { pieces, each }
    }

    /// Returns the pieces in the ring buffers. Programs may write at the same time. Pieces that
    /// they overwrite during the call are left out.
    pub(super) fn read(&self, cpus: &MappedArray<WireCpu>) -> LostPieces {
        let mut all = LostPieces::default();
        let mut turns = Vec::new();
        let count = u32::try_from(cpus.slots()).unwrap_or(u32::MAX);
        for cpu in 0..count {
            let Some(written) = cpus.u64(cpu, offset_of!(WireCpu, pieces)) else {
                continue;
            };
            let until = written.load(Acquire);
            let from = until.saturating_sub(self.each.into());
            let mut words = Vec::new();
            for number in from..until {
                self.pieces.copy_words(self.index(cpu, number), &mut words);
            }
            fence(Acquire);
            // A program may be writing one more piece, which it has not counted yet.
            let overwritten = (written.load(Relaxed) + 1).saturating_sub(self.each.into());
            let lost = usize::try_from(overwritten.saturating_sub(from)).unwrap_or(usize::MAX);
            let is_whole = until < u64::from(self.each) && lost == 0;
            let mut pieces = Vec::new();
            for words in words.chunks_exact(WORDS).skip(lost) {
                match wire(words).and_then(|wire| decode(&wire)) {
                    Some(Told::Piece(piece)) => pieces.push(piece),
                    Some(Told::Turn(turn)) => turns.push(turn),
                    None => {}
                }
            }
            let first = if is_whole { 0 } else { first_whole(&pieces) };
            if !is_whole {
                // If the ring has no complete wait, the end of the last overwritten wait is
                // unknown.
                let end = pieces.get(first);
                let end = end.map_or(u64::MAX, |piece| piece.until_mono_ns);
                all.whole_from_mono_ns = all.whole_from_mono_ns.max(end);
            }
            all.pieces.extend(pieces.into_iter().skip(first));
        }
        all.pieces = named(all.pieces, turns);
        all
    }

    fn index(&self, cpu: u32, number: u64) -> u32 {
        let place = u32::try_from(number % u64::from(self.each)).unwrap_or(0);
        cpu * self.each + place
    }
}

/// Returns the index of the first piece of a wait that is completely in `pieces`. The pieces of a
/// wait are adjacent, in reverse order of time.
fn first_whole(pieces: &[LostPiece]) -> usize {
    let goes_on = |pair: &[LostPiece]| {
        pair[0].vcpu == pair[1].vcpu && pair[1].until_mono_ns == pair[0].from_mono_ns
    };
    let rest = pieces.windows(2).position(|pair| !goes_on(pair));
    rest.map_or(pieces.len(), |before| before + 1)
}

/// Sets the tasks of pieces whose task is unknown, by the turns on the same CPU. This applies to
/// waits with more turns than a BPF program remembers at a time.
fn named(pieces: Vec<LostPiece>, mut turns: Vec<Turn>) -> Vec<LostPiece> {
    turns.sort_by_key(|turn| (turn.cpu, turn.until_mono_ns));
    let mut all = Vec::with_capacity(pieces.len());
    for piece in pieces {
        if piece.kind != PieceKind::Unknown {
            all.push(piece);
            continue;
        }
        let (mut from, end) = (piece.from_mono_ns, piece.until_mono_ns);
        let first = turns.partition_point(|turn| {
            (turn.cpu, turn.until_mono_ns) <= (piece.cpu, piece.from_mono_ns)
        });
        let of_cpu = turns[first..].iter();
        let within = of_cpu.take_while(|turn| turn.cpu == piece.cpu && turn.from_mono_ns < end);
        let mut part = |from, until, kind, runner: Option<Runner>| {
            if from < until {
                all.push(LostPiece {
                    kind,
                    from_mono_ns: from,
                    until_mono_ns: until,
                    runner,
                    ..piece.clone()
                });
            }
        };
        for turn in within {
            let (begin, until) = (turn.from_mono_ns.max(from), turn.until_mono_ns.min(end));
            let (kind, runner) = turn.who();
            part(from, begin, PieceKind::Unknown, None);
            part(begin, until, kind, runner);
            from = until.max(from);
        }
        part(from, end, PieceKind::Unknown, None);
    }
    all
}

/// A turn: a time in which one task had a CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Turn {
    cpu: u32,
    from_mono_ns: u64,
    until_mono_ns: u64,
    runner: Runner,
}

impl Turn {
    /// Returns the kind of the turn, and the task that had the CPU. The CPU may have idled, or the
    /// task may be unknown.
    fn who(&self) -> (PieceKind, Option<Runner>) {
        match self.runner.tid {
            0 => (PieceKind::Idle, None),
            u32::MAX => (PieceKind::Unknown, None),
            _ => (PieceKind::Ran, Some(self.runner.clone())),
        }
    }
}

#[derive(Debug)]
enum Told {
    Piece(LostPiece),
    Turn(Turn),
}

fn wire(words: &[u64]) -> Option<WirePiece> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    plain::read(&bytes)
}

fn decode(wire: &WirePiece) -> Option<Told> {
    let runner = Runner {
        name: name(wire.who.comm),
        tid: wire.tid,
        vcpu: (wire.who.vcpu > 0).then_some(GateVcpuId(wire.who.vcpu)),
    };
    if wire.lost.0 == TURN {
        return Some(Told::Turn(Turn {
            cpu: wire.cpu,
            from_mono_ns: wire.from,
            until_mono_ns: wire.until,
            runner,
        }));
    }
    let kind = PieceKind::ALL
        .into_iter()
        .find(|kind| *kind as u32 == wire.lost.0)?;
    Some(Told::Piece(LostPiece {
        vcpu: GateVcpuId(wire.vcpu),
        kind,
        cpu: wire.cpu,
        from_mono_ns: wire.from,
        until_mono_ns: wire.until,
        runner: (kind == PieceKind::Ran).then_some(runner),
    }))
}
