//! Layout of the live exit counters that host BPF writes and a guest reads: an
//! array with one slot per host CPU, shared as memory with no copying thread.

/// Bytes of one CPU's slot. Two cache lines, so that neighbours never share one
/// and the adjacent-line prefetcher does not make them.
pub const SLOT_BYTES: usize = 128;
/// Offset of the u64 count of exits handled in the host kernel.
pub const LIGHT_OFFSET: usize = 0;
/// Offset of the u64 count of exits that went to the VMM.
pub const HEAVY_OFFSET: usize = 8;
