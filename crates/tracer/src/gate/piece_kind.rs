//! Kinds of lost time of a vCPU.

/// Kind of a piece of lost time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum PieceKind {
    /// The vCPU waited, and it is unknown which task had the CPU.
    Unknown,
    /// The vCPU waited, and another task ran.
    Ran,
    /// The vCPU waited, the CPU idled, and no throttling was observed. Usually the CPU was leaving
    /// idle.
    Idle,
    /// The vCPU waited, and the CPU idled, because the group or class of the vCPU had used up its
    /// quota.
    Throttled,
    /// The vCPU waited, and no task can be blamed. The vCPU may have been throttled, so it is
    /// unknown whether it could have run instead of another task. Or the vCPU had moved from
    /// another CPU, and the instant of the move is unknown.
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

/// GATE_TURN of `bpf/gate.h`: the record is a turn on a CPU, not a piece of lost time.
pub(super) const TURN: u32 = 6;
