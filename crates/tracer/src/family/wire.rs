//! The Rust face of `bpf/family.h`: types generated from the object's BTF.

use crate::packed::{Packed, packed_object};
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
    include!(concat!(env!("OUT_DIR"), "/family.skel.rs"));
}

pub(super) use generated::types::{
    family_books as WireBooks, family_cpu as WireCpu, family_culprit as WireCulprit,
    family_losses as WireLosses, family_member as WireMember, vmnoise_source as WireSource,
};

/// The kinds of what is longest, in the order of `enum family_kind`.
pub(super) const KINDS: usize = 5;

const _: () = assert!(size_of::<WireCpu>().is_multiple_of(128));

/// The BPF programs, compiled.
pub(super) static OBJECT: Packed = packed_object!("family");

impl Plain for WireCpu {}
impl Plain for WireCulprit {}
impl Plain for WireMember {}
