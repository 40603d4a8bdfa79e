//! Guest addresses of the data that the host puts into the guest's memory.

/// Guest address of the top-level page table.
pub const PAGE_TABLE: u64 = 0x1000;
/// Guest address of the segment table (GDT). Only guests that take interrupts have one.
pub const GDT: u64 = 0x8000;
/// Guest address of the table of interrupt handlers (IDT).
pub const IDT: u64 = 0x9000;
/// Guest address of the upper end of the stack. The stack has a page of its own.
pub const STACK: u64 = 0xb000;
/// Guest address of the program that measures gaps.
pub const PROGRAM: u64 = 0x10000;
/// Guest address of the program of the exercises.
pub const EXERCISES: u64 = 0x11000;
/// Guest address of the program of the timers.
pub const TIMERS: u64 = 0x12000;
