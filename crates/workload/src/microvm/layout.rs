//! Where the guest finds what the host put into its memory.

/// Guest address of the top page table.
pub const PAGE_TABLE: u64 = 0x1000;
/// Guest address of the program.
pub const PROGRAM: u64 = 0x10000;
/// Guest address of the program of the exercises.
pub const EXERCISES: u64 = 0x11000;
