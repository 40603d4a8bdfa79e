//! The Rust types of `bpf/own_cpus.h`, generated from the object's BTF.

use std::mem::offset_of;

use crate::gate::lengths::{self, BOUNDS};
use crate::object::compiled;
use crate::plain::Plain;

compiled!("own_cpus");

use generated::types::own_settings as Settings;
pub(super) use generated::types::{own_cpu as WireCpu, own_lengths as WireLengths};

/// One of this many program runs is timed: OWN_TIMED_RUN of `bpf/own_cpus.h`.
pub(super) const TIMED_RUN: u64 = 251;
/// Value of a steal clock that was not read yet: OWN_UNREAD of `bpf/own_cpus.h`.
pub(super) const UNREAD: u64 = u64::MAX;

const _: () = {
    assert!(size_of::<WireCpu>().is_multiple_of(128));
    assert!(offset_of!(Settings, bounds) == 0);
    assert!(offset_of!(Settings, xen) == BOUNDS * size_of::<u64>());
    assert!(size_of::<Settings>() == (BOUNDS + 1) * size_of::<u64>());
};

/// Returns the settings that the programs get before they are loaded, as the content of their
/// `.rodata`. The settings are the bounds of lengths, and whether the steal clock has Xen's layout.
pub(crate) fn settings(xen: bool) -> Vec<u8> {
    let words = lengths::bounds().iter().copied().chain([xen.into()]);
    words.flat_map(u64::to_ne_bytes).collect()
}

impl Plain for WireCpu {}
