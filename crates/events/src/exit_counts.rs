//! Layout of the live exit counters. The host's BPF programs write the counters and a guest reads
//! them. The counters are an array with one slot per host CPU, in memory that both sides share.

/// Size of one CPU's slot: two cache lines. So neighbouring slots never share a cache line, and the
/// adjacent-line prefetcher never loads a line of another slot.
pub const SLOT_BYTES: usize = 128;
/// Offset in the slot of the number of exits that the host kernel handled (u64).
pub const LIGHT_OFFSET: usize = 0;
/// Offset in the slot of the number of exits that the VMM handled (u64).
pub const HEAVY_OFFSET: usize = 8;
