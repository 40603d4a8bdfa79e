//! Recent losses of vCPUs, piece by piece: reads the rings that the CPUs write.

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

/// A task that ran instead of a vCPU.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Runner {
    /// Name of the task's process.
    pub name: Name,
    /// The thread's id.
    pub tid: u32,
    /// Id of the vCPU, if the task is the thread of a vCPU.
    pub vcpu: Option<GateVcpuId>,
}

/// A part of a wait of a vCPU, or a sleep. Times are CLOCK_MONOTONIC in ns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostPiece {
    /// vCPU that lost the time.
    pub vcpu: GateVcpuId,
    /// Kind of the loss.
    pub kind: PieceKind,
    /// CPU for which the vCPU waited, or on which it fell asleep.
    pub cpu: u32,
    /// Begin of the piece, CLOCK_MONOTONIC in ns.
    pub from_mono_ns: u64,
    /// End of the piece, CLOCK_MONOTONIC in ns.
    pub until_mono_ns: u64,
    /// Who ran, if a task did.
    pub runner: Option<Runner>,
}

/// The pieces of all CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LostPieces {
    /// Pieces, in no order.
    pub pieces: Vec<LostPiece>,
    /// Begin of the complete time, CLOCK_MONOTONIC in ns. Every finished wait that began later is
    /// included, if it was long enough to be reported. 0: no piece was ever overwritten.
    pub whole_from_mono_ns: u64,
}

/// The rings of all CPUs, one after the other.
#[derive(Debug)]
pub(super) struct Rings {
    pieces: MappedArray<WirePiece>,
    each: u32,
}

impl Rings {
    /// Takes the rings. `each` is how many pieces each CPU keeps.
    pub(super) fn new(pieces: MappedArray<WirePiece>, each: u32) -> Rings {
        Rings { pieces, each }
    }

    /// Returns what is kept now. Programs continue to write; pieces that they overwrite meanwhile
    /// are left out.
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
            // The programs may be writing one more than they have counted.
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
                // If no wait is complete, nobody knows when the last one ended.
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

/// Returns the first piece that begins a wait. The pieces of a wait are written in a row, the last
/// one first.
fn first_whole(pieces: &[LostPiece]) -> usize {
    let goes_on = |pair: &[LostPiece]| {
        pair[0].vcpu == pair[1].vcpu && pair[1].until_mono_ns == pair[0].from_mono_ns
    };
    let rest = pieces.windows(2).position(|pair| !goes_on(pair));
    rest.map_or(pieces.len(), |before| before + 1)
}

/// Names pieces by turns. A wait may hold more turns than a CPU keeps; the reported turns fill the
/// rest.
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

/// A turn: who had a CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Turn {
    cpu: u32,
    from_mono_ns: u64,
    until_mono_ns: u64,
    runner: Runner,
}

impl Turn {
    /// Returns whether the CPU idled, it is unknown who had all of it, or a task had it.
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
