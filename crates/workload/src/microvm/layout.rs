//! Guest addresses of what the host put into the guest's memory.

/// Guest address of the top page table.
pub const PAGE_TABLE: u64 = 0x1000;
/// Guest address of the segment descriptors, for a guest that takes interrupts.
pub const GDT: u64 = 0x8000;
/// Guest address of the table of interrupt handlers.
pub const IDT: u64 = 0x9000;
/// Guest address of the end of the stack, which has its own page.
pub const STACK: u64 = 0xb000;
/// Guest address of the program.
pub const PROGRAM: u64 = 0x10000;
/// Guest address of the program of the exercises.
pub const EXERCISES: u64 = 0x11000;
/// Guest address of the program of the timers.
pub const TIMERS: u64 = 0x12000;
