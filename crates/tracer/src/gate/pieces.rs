//! What vCPUs lost lately, piece by piece: the rings that each CPU writes, as they are read.

use std::mem::offset_of;
use std::sync::atomic::{
    Ordering::{Acquire, Relaxed},
    fence,
};

use vmnoise_events::Name;

use super::books::{VcpuId, name};
use super::wire::{WireCpu, WirePiece};
use crate::mapped_array::MappedArray;
use crate::plain;

/// What a piece was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum PieceKind {
    /// It waited, and nobody knows who had the CPU.
    Unknown,
    /// It waited, and somebody else ran.
    Ran,
    /// It waited, the CPU idled, and no throttle was seen: the CPU was on its way out of idle, as a rule.
    Idle,
    /// It waited, and the CPU idled: its group or its class had used up its time.
    Throttled,
    /// It waited, and was throttled at first or meanwhile: nobody knows whether it could have run instead.
    Unsure,
    /// It slept inside of KVM without its guest's wish.
    Blocked,
}

impl PieceKind {
    const ALL: [PieceKind; 6] = [
        PieceKind::Unknown,
        PieceKind::Ran,
        PieceKind::Idle,
        PieceKind::Throttled,
        PieceKind::Unsure,
        PieceKind::Blocked,
    ];
}

/// Who ran instead of a vCPU.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Runner {
    /// The name of its process.
    pub name: Name,
    /// The thread.
    pub tid: u32,
    /// If it is a vCPU: which.
    pub vcpu: Option<VcpuId>,
    /// Whether it is a thread of the vCPU's own VMM.
    pub is_own: bool,
}

/// A part of a wait of a vCPU, or a sleep. Times are CLOCK_MONOTONIC in ns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostPiece {
    /// Whose.
    pub vcpu: VcpuId,
    /// What it was.
    pub kind: PieceKind,
    /// The CPU for which it waited, or on which it fell asleep.
    pub cpu: u32,
    /// Its begin.
    pub from_mono_ns: u64,
    /// Its end.
    pub until_mono_ns: u64,
    /// Who ran, where somebody did.
    pub runner: Option<Runner>,
}

/// What is kept of all CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LostPieces {
    /// In no order.
    pub pieces: Vec<LostPiece>,
    /// Every wait that ended after this instant is there, from its begin to its end, as far as it was as
    /// long as those that are told; CLOCK_MONOTONIC in ns. 0: none was ever overwritten.
    pub whole_from_mono_ns: u64,
}

/// The rings of all CPUs, one after the other.
#[derive(Debug)]
pub(super) struct Rings {
    pieces: MappedArray<WirePiece>,
    each: u32,
}

impl Rings {
    /// `each` is how many pieces each CPU keeps.
    pub(super) fn new(pieces: MappedArray<WirePiece>, each: u32) -> Rings {
        Rings { pieces, each }
    }

    /// What is kept now. Programs go on writing: what they overwrite meanwhile is left out.
    pub(super) fn read(&self, cpus: &MappedArray<WireCpu>) -> LostPieces {
        let mut all = LostPieces::default();
        let count = u32::try_from(cpus.slots()).unwrap_or(u32::MAX);
        for cpu in 0..count {
            let Some(written) = cpus.u64(cpu, offset_of!(WireCpu, pieces)) else {
                continue;
            };
            let until = written.load(Acquire);
            let from = until.saturating_sub(self.each.into());
            let kept = (from..until).map(|number| self.pieces.words(self.index(cpu, number)));
            let kept: Vec<Option<Vec<u64>>> = kept.collect();
            fence(Acquire);
            // One more than was written down: it may be being written.
            let overwritten = (written.load(Relaxed) + 1).saturating_sub(self.each.into());
            let lost = usize::try_from(overwritten.saturating_sub(from)).unwrap_or(usize::MAX);
            let kept: Vec<LostPiece> = kept
                .into_iter()
                .skip(if until < u64::from(self.each) {
                    0
                } else {
                    lost
                })
                .filter_map(|words| decode(&words?))
                .collect();
            let is_whole = until < u64::from(self.each);
            let first = if is_whole { 0 } else { first_whole(&kept) };
            if !is_whole {
                let end = kept.get(first).or(kept.last());
                let end = end.map_or(u64::MAX, |piece| piece.until_mono_ns);
                all.whole_from_mono_ns = all.whole_from_mono_ns.max(end);
            }
            all.pieces.extend(kept.into_iter().skip(first));
        }
        all
    }

    fn index(&self, cpu: u32, number: u64) -> u32 {
        let place = u32::try_from(number % u64::from(self.each)).unwrap_or(0);
        cpu * self.each + place
    }
}

/// The first piece that begins a wait: those of one are written one after the other, the last one first.
fn first_whole(pieces: &[LostPiece]) -> usize {
    let goes_on = |pair: &[LostPiece]| {
        pair[0].vcpu == pair[1].vcpu && pair[1].until_mono_ns == pair[0].from_mono_ns
    };
    let rest = pieces.windows(2).position(|pair| !goes_on(pair));
    rest.map_or(pieces.len(), |before| before + 1)
}

fn decode(words: &[u64]) -> Option<LostPiece> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let wire: WirePiece = plain::read(&bytes)?;
    let kind = PieceKind::ALL
        .into_iter()
        .find(|kind| *kind as u32 == wire.lost.0)?;
    let runner = (kind == PieceKind::Ran).then(|| Runner {
        name: name(wire.who.comm),
        tid: wire.tid,
        vcpu: (wire.who.vcpu > 0).then_some(VcpuId(wire.who.vcpu)),
        is_own: wire.who.tgid != 0,
    });
    Some(LostPiece {
        vcpu: VcpuId(wire.vcpu),
        kind,
        cpu: wire.cpu,
        from_mono_ns: wire.from,
        until_mono_ns: wire.until,
        runner,
    })
}
