//! The Rust types of `bpf/vm_files.h`, generated from the object's BTF.

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
    include!(concat!(env!("OUT_DIR"), "/vm_files.skel.rs"));
}

pub(super) use generated::types::vm_file as WireFile;

/// The compiled BPF programs.
pub(super) static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/vm_files.bpf.o"));

impl Plain for WireFile {}
