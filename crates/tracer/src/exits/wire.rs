//! The Rust face of `bpf/exits.h`: types generated from the object's BTF.

#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    missing_debug_implementations,
    rust_2018_idioms,
    unsafe_op_in_unsafe_fn
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/exits.skel.rs"));
}

pub(super) use generated::types::{
    bss as Globals, exits_exit as WireExit, exits_reason as WireReason, exits_split as WireSplit,
    exits_vcpu as WireVcpu,
};

/// The BPF programs, compiled.
pub(super) static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/exits.bpf.o"));

/// A value out of a map, as the kernel gives it.
pub(super) fn read<Value: Plain>(bytes: &[u8]) -> Option<Value> {
    if bytes.len() < size_of::<Value>() {
        return None;
    }
    // SAFETY: long enough, and any bytes are a value: `Plain` is only what is made of
    // numbers.
    Some(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}

/// A value as the kernel takes it.
pub(super) fn bytes<Value: Plain>(value: &Value) -> &[u8] {
    // SAFETY: `Plain` is made of numbers without padding between them, so every byte
    // is initialized.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<Value>()) }
}

/// Structures made of numbers, without padding.
pub(super) trait Plain: Copy {}

impl Plain for Globals {}
impl Plain for WireReason {}
impl Plain for WireVcpu {}
