//! What a piece of a vCPU's lost time was.

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
    /// It waited, and nobody can be blamed: it was throttled at first or meanwhile, so nobody knows whether it could
    /// have run instead, or it waited for another CPU since an instant that nobody knows.
    Unsure,
    /// It slept inside of KVM without its guest's wish.
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

/// GATE_TURN of `bpf/gate.h`: what is told is no piece.
pub(super) const TURN: u32 = 6;
