//! The Rust types of `bpf/gate.h`, generated from the object's BTF.

use std::mem::offset_of;

use super::lengths::{self, BOUNDS};
use super::piece_kind::{PieceKind, TURN};
use super::state::VcpuThreadState;
use crate::object::compiled;
use crate::plain::Plain;

compiled!("gate");

pub(super) use generated::types::gate_piece as WirePiece;
pub(super) use generated::types::{
    gate_cpu as WireCpu, gate_found as WireFound, gate_vcpu as WireVcpu,
};
use generated::types::{gate_lost as Lost, gate_settings as Settings, gate_state as State};

/// GATE_STATES of `bpf/gate.h`.
pub(super) const STATES: usize = VcpuThreadState::ALL.len();

const _: () = {
    assert!(State::GATE_UNSEEN.0 == VcpuThreadState::Unseen as u32);
    assert!(State::GATE_RUNNING.0 == VcpuThreadState::Running as u32);
    assert!(State::GATE_WAITING.0 == VcpuThreadState::Waiting as u32);
    assert!(State::GATE_HALTED.0 == VcpuThreadState::Halted as u32);
    assert!(State::GATE_BLOCKED.0 == VcpuThreadState::Blocked as u32);
    assert!(State::GATE_IN_VMM.0 == VcpuThreadState::InVmm as u32);
    assert!(State::GATE_ASLEEP.0 == VcpuThreadState::Asleep as u32);
    assert!(State::GATE_ENDED.0 == VcpuThreadState::Ended as u32);
    assert!(State::GATE_STATES.0 as usize == STATES);
    assert!(Lost::GATE_LOST_UNKNOWN.0 == PieceKind::Unknown as u32);
    assert!(Lost::GATE_LOST_RAN.0 == PieceKind::Ran as u32);
    assert!(Lost::GATE_LOST_IDLE.0 == PieceKind::Idle as u32);
    assert!(Lost::GATE_LOST_THROTTLED.0 == PieceKind::Throttled as u32);
    assert!(Lost::GATE_LOST_UNSURE.0 == PieceKind::Unsure as u32);
    assert!(Lost::GATE_LOST_BLOCKED.0 == PieceKind::Blocked as u32);
    assert!(Lost::GATE_TURN.0 == TURN);
    assert!(offset_of!(Settings, bounds) == 0);
    assert!(offset_of!(Settings, told_from) == BOUNDS * size_of::<u64>());
    assert!(offset_of!(Settings, pieces_each) == (BOUNDS + 1) * size_of::<u64>());
    assert!(size_of::<Settings>() == (BOUNDS + 2) * size_of::<u64>());
};

/// Returns the settings that the programs get before they are loaded, as the content of their
/// `.rodata`.
///
/// Waits of `told_from_ns` or longer are reported piece by piece. `pieces_each` is the number of
/// pieces that each CPU keeps, a power of two.
pub(super) fn settings(told_from_ns: u64, pieces_each: u64) -> Vec<u8> {
    assert!(pieces_each.is_power_of_two());
    let words = lengths::bounds()
        .iter()
        .chain([&told_from_ns, &pieces_each]);
    words.flat_map(|word| word.to_ne_bytes()).collect()
}

impl WireVcpu {
    /// Returns whether the last walk over all tasks showed that the vCPU's thread left a CPU
    /// without an event.
    pub(super) fn has_missed(&self) -> bool {
        self.walked_switches > self.switches
    }

    /// Makes the state unknown from `mono_ns` on (CLOCK_MONOTONIC in ns). After a missed departure,
    /// the state is unknown from its last confirmation on. A current wait is unknown from its begin
    /// on, because it is unknown which tasks had the CPU. No program may have written this vCPU
    /// since `mono_ns`.
    pub(super) fn forget(&mut self, mono_ns: u64) {
        let state = self.state.0 as usize;
        if state == VcpuThreadState::Ended as usize {
            return;
        }
        let known_ns = match self.has_missed() {
            true => mono_ns.min(self.confirmed),
            false => mono_ns,
        };
        if state != VcpuThreadState::Waiting as usize && known_ns > self.since {
            self.spent[state] += known_ns - self.since;
            self.since = known_ns;
        }
        self.state = State::GATE_UNSEEN;
        self.waited = 0;
    }
}

#[cfg(test)]
impl Plain for WireCpu {}
impl Plain for WireFound {}
impl Plain for WirePiece {}
impl Plain for WireVcpu {}
