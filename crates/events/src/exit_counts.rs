//! Layout of the live exit counters that host BPF writes and a guest reads: an array with one slot
//! per host CPU. Both share the memory; no thread copies it.

/// Bytes of one CPU's slot: two cache lines. Neighbouring slots never share a line, and the
/// adjacent-line prefetcher never loads the neighbour's line.
pub const SLOT_BYTES: usize = 128;
/// Offset of the u64 count of exits handled in the host kernel.
pub const LIGHT_OFFSET: usize = 0;
/// Offset of the u64 count of exits that went to the VMM.
pub const HEAVY_OFFSET: usize = 8;
