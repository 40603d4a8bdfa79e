//! The Rust types of `bpf/stop.h`, generated from the object's BTF.

use crate::object::compiled;
use crate::plain::Plain;

compiled!("stop");

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

impl Plain for WireStack {}
impl Plain for WireTurn {}
