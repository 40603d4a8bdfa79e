//! Kinds of pieces of a vCPU's lost time.

/// Kind of a piece of lost time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum PieceKind {
    /// The vCPU waited, and it is unknown which task had the CPU.
    Unknown,
    /// The vCPU waited, and another task ran.
    Ran,
    /// It waited, the CPU idled, and no throttling was seen. Usually the CPU was leaving idle.
    Idle,
    /// The vCPU waited, and the CPU idled, because the vCPU's group or class had used up its time.
    Throttled,
    /// It waited, and nobody can be blamed. It may have been throttled, so it is unknown whether it
    /// could have run instead. Or it waited for another CPU, and it is unknown since when.
    Unsure,
    /// The vCPU slept inside KVM, although its guest did not want to sleep.
    Blocked,
}

impl PieceKind {
    pub(super) const ALL: [PieceKind; 6] = [
        PieceKind::Unknown,
        PieceKind::Ran,
        PieceKind::Idle,
        PieceKind::Throttled,
        PieceKind::Unsure,
        PieceKind::Blocked,
    ];
}

/// GATE_TURN of `bpf/gate.h`: the record is a turn, and no piece.
pub(super) const TURN: u32 = 6;
