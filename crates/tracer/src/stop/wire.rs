//! The Rust types of `bpf/stop.h`, generated from the object's BTF.

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
    include!(concat!(env!("OUT_DIR"), "/stop.skel.rs"));
}

pub(super) use generated::types::{
    stop_stack as WireStack, stop_stacks as WireStacks, stop_turn as WireTurn,
    stop_turns as WireTurns,
};

const _: () = {
    assert!(size_of::<WireStack>() == 32 * size_of::<u64>());
    assert!(size_of::<WireStacks>() == 16 + 128 * size_of::<WireStack>());
    assert!(size_of::<WireTurn>() == 4 * size_of::<u64>());
    assert!(size_of::<WireTurns>() == 16 + 512 * size_of::<WireTurn>());
};

/// The compiled BPF programs.
pub(super) static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stop.bpf.o"));

impl Plain for WireStack {}
impl Plain for WireTurn {}
