//! The Rust face of `bpf/gate.h`: types generated from the object's BTF.

use std::mem::offset_of;

use super::lengths::BOUNDS;
use super::state::VcpuState;
use crate::plain::Plain;

#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    missing_debug_implementations,
    rust_2018_idioms,
    unsafe_op_in_unsafe_fn
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/gate.skel.rs"));
}

pub(super) use generated::types::{
    gate_cpu as WireCpu, gate_found as WireFound, gate_vcpu as WireVcpu,
};
use generated::types::{gate_state as State, rodata as Settings};

/// GATE_STATES of `bpf/gate.h`.
pub(super) const STATES: usize = VcpuState::ALL.len();

const _: () = {
    assert!(State::GATE_UNSEEN.0 == VcpuState::Unseen as u32);
    assert!(State::GATE_RUNNING.0 == VcpuState::Running as u32);
    assert!(State::GATE_WAITING.0 == VcpuState::Waiting as u32);
    assert!(State::GATE_HALTED.0 == VcpuState::Halted as u32);
    assert!(State::GATE_BLOCKED.0 == VcpuState::Blocked as u32);
    assert!(State::GATE_IN_VMM.0 == VcpuState::InVmm as u32);
    assert!(State::GATE_ASLEEP.0 == VcpuState::Asleep as u32);
    assert!(State::GATE_ENDED.0 == VcpuState::Ended as u32);
    assert!(State::GATE_STATES.0 as usize == STATES);
    // All that the programs are given: lengths.rs.
    assert!(offset_of!(Settings, bounds) == 0);
    assert!(size_of::<Settings>() == BOUNDS * size_of::<u64>());
};

/// The BPF programs, compiled.
pub(super) static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/gate.bpf.o"));

impl WireVcpu {
    /// From this instant on nobody sees what it does; nothing of it was written since. A wait that was under way is
    /// unseen from its begin: nobody knows who will have had the CPU in all of it.
    pub(super) fn forget(&mut self, mono_ns: u64) {
        let state = self.state.0 as usize;
        if state == VcpuState::Ended as usize {
            return;
        }
        if state != VcpuState::Waiting as usize && mono_ns > self.since {
            self.spent[state] += mono_ns - self.since;
            self.since = mono_ns;
        }
        self.state = State::GATE_UNSEEN;
        self.waited = 0;
    }
}

#[cfg(test)]
impl Plain for WireCpu {}
impl Plain for WireFound {}
impl Plain for WireVcpu {}
