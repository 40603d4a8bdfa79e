//! The guest program that measures gaps.
//!
//! The program runs at CPL3 with interrupts off and without a stack. It accesses only its mailbox,
//! its ring and the exit counts. It executes one [`GuestCommand`] after another. After each
//! command, the instruction `out` returns the CPU to the host (IOPL 3 allows this at CPL3). `rdi`
//! contains the guest address of the [`Mailbox`], and `rsi` the guest address of the ring. The host
//! sets both registers once, before the start.
//!
//! **Polling.** Each iteration reads the TSC. It compares the advance since the last reading with
//! the threshold, and the reading with the deadline. It stores the reading in a cache line of its
//! own, which moves to another CPU only when the host reads it. The loop accesses nothing else, so
//! an iteration costs little more than its `rdtsc`.
//!
//! **A gap** is the time between two consecutive readings that are at least the threshold apart.
//! Only after a gap, the guest reads the steal page (by the version protocol) and the exit counts,
//! and writes one record.
//!
//! **A time that is too short for a gap** may also contain steal time and exits. They belong to no
//! gap. So the guest reads the steal page and the exit counts after such a time, and discards their
//! advance.
//!
//! **Blind time.** Nothing is measured while a record is written. This time is not noise, so
//! polling continues from a reading after the record. The time between is added to `blind_tsc`,
//! which is subtracted from the runtime. If writing took longer than `blind_limit_tsc`, something
//! interrupted the writing. Then this time is another gap, which begins at the end of the previous
//! gap.

use std::arch::global_asm;
use std::mem::offset_of;

use vmnoise_events::exit_counts;

use super::layout::{EXERCISES, TIMERS};
use crate::mailbox::{
    Control, Counters, DrainedRecords, GapRecord, Heartbeat, Mailbox, RING_BYTES, RING_RECORDS,
    StealPage,
};

/// Command that the host gives to the guest before an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum GuestCommand {
    /// Write to every page of the ring and read the exit counts, so that no access causes a page
    /// fault later.
    Touch = 1,
    /// Store one reading of the TSC in the mailbox.
    Stamp = 2,
    /// Poll and record gaps until the deadline.
    Poll = 3,
    /// Run [`SAMPLES`] iterations of the polling loop, and store the advance of the TSC in each
    /// iteration in the memory of the ring.
    Sample = 4,
    /// Run the program of the exercises until the deadline.
    Exercise = 5,
    /// Continue to record gaps after [`GuestCommand::Poll`] has returned. The time since then is
    /// blind time.
    GoOn = 6,
    /// Run the program of the timers until the deadline.
    Timers = 7,
}

/// Number of iterations of [`GuestCommand::Sample`].
pub const SAMPLES: usize = RING_BYTES / size_of::<u64>();
/// I/O port to which the guest writes after each command.
pub const DONE_PORT: u16 = 0xf0;

/// Returns the machine code of the program. It is position independent, and its first byte is the
/// entry point.
pub fn program() -> &'static [u8] {
    unsafe extern "C" {
        static vmnoise_guest_start: u8;
        static vmnoise_guest_end: u8;
    }
    let (start, end) = (&raw const vmnoise_guest_start, &raw const vmnoise_guest_end);
    // SAFETY: both symbols are defined below, in this order, around bytes of one
    // read-only section that lives as long as the program.
    unsafe { std::slice::from_raw_parts(start, end as usize - start as usize) }
}

const CONTROL: usize = offset_of!(Mailbox, control);
const COUNTERS: usize = offset_of!(Mailbox, counters);
const STEAL: usize = offset_of!(Mailbox, steal);

// The program computes addresses of records by shifts and masks.
const _: () = assert!(RING_RECORDS.is_power_of_two());
const _: () = assert!(size_of::<GapRecord>() == 64);
const _: () = assert!(size_of::<Mailbox>() == 4096);
const _: () = assert!(size_of::<StealPage>() == 64 && STEAL.is_multiple_of(64));
const _: () = assert!(exit_counts::SLOT_BYTES <= size_of::<[u64; 16]>());
// The guest and the host write to different cache lines, which are not adjacent either.
const _: () = assert!(COUNTERS.is_multiple_of(128));

global_asm!(
    r#"
    .pushsection .rodata.vmnoise_guest, "a", @progbits

    // rax = the TSC; spoils rdx.
    .macro vmnoise_read_clock
        rdtsc
        shl     rdx, 32
        or      rax, rdx
    .endm

    // One step: jumps to \away if the reading is r9 or more after r8, the last
    // reading. The compare is unsigned, so a clock that stepped back also jumps.
    // Afterwards rcx holds the advance, and "below" means: continue.
    .macro vmnoise_step away
        vmnoise_read_clock
        mov     rcx, rax
        sub     rcx, r8
        cmp     rcx, r9
        jae     \away
        mov     r8, rax
        mov     [rdi + {last}], rax
        cmp     rax, [rdi + {deadline}]
    .endm

    // rdx = steal in ns, ecx = version: read again while the hypervisor writes.
    .macro vmnoise_read_steal
    77:
        mov     ecx, [rdi + {version}]
        test    ecx, 1
        jnz     77b
        mov     rdx, [rdi + {steal}]
        cmp     ecx, [rdi + {version}]
        jne     77b
    .endm

    // Stores the advance of rdx since the last value in the record at r15.
    .macro vmnoise_book seen, field
        mov     rbx, rdx
        sub     rbx, [rdi + \seen]
        mov     [rdi + \seen], rdx
        mov     [r15 + \field], rbx
    .endm

    // The current values of steal page and exit counts belong to no gap; spoils rdx, ecx.
    .macro vmnoise_discard
        vmnoise_read_steal
        mov     [rdi + {seen_steal}], rdx
        mov     [rdi + {seen_version}], ecx
        mov     rdx, [r14 + {light}]
        mov     [rdi + {seen_light}], rdx
        mov     rdx, [r14 + {heavy}]
        mov     [rdi + {seen_heavy}], rdx
    .endm

    .globl  vmnoise_guest_start
    .hidden vmnoise_guest_start
    .globl  vmnoise_guest_end
    .hidden vmnoise_guest_end

    .balign 64
vmnoise_guest_start:
10: // obey
        mov     eax, [rdi + {command}]
        cmp     eax, {poll}
        je      40f
        cmp     eax, {stamp}
        je      30f
        cmp     eax, {touch}
        je      20f
        cmp     eax, {sample}
        je      60f
        cmp     eax, {exercise}
        je      70f
        cmp     eax, {go_on}
        je      45f
        cmp     eax, {timers}
        je      80f
        ud2                     // no IDT: the host sees a shutdown

11: // done
        out     {port}, al
        jmp     10b

20: // touch
        xor     ecx, ecx
21:     mov     byte ptr [rsi + rcx], 0
        add     rcx, 4096
        cmp     rcx, {ring_bytes}
        jb      21b
        mov     rax, [rdi + {exit_counts}]
        mov     rax, [rax]
        jmp     11b

30: // stamp
        vmnoise_read_clock
        mov     [rdi + {stamp_tsc}], rax
        jmp     11b

40: // poll: all counts begin here
        mov     r9, [rdi + {look}]
        mov     r14, [rdi + {exit_counts}]
        vmnoise_discard
        mov     rdx, [rdi + {seen_steal}]
        mov     [rdi + {first_steal}], rdx
        mov     ecx, [rdi + {seen_version}]
        mov     [rdi + {first_version}], ecx
        vmnoise_read_clock
        mov     r8, rax
        mov     [rdi + {last}], rax
        mov     [rdi + {first}], rax

    .balign 64, 0x90            // nop: in a data section the default is 0
41:     vmnoise_step 50f
        jb      41b
        jmp     11b

45: // go on: the counters stay, and their advance meanwhile belongs to no gap
        mov     r9, [rdi + {look}]
        mov     r8, [rdi + {last}]
        mov     r14, [rdi + {exit_counts}]
        vmnoise_discard
        vmnoise_read_clock
        mov     rcx, rax
        sub     rcx, r8
        add     [rdi + {blind}], rcx
        jmp     54f

50: // away from r8 to rax, rcx long: a gap, unless it is short or the clock stepped back
        test    rcx, rcx
        js      53f
        cmp     rcx, [rdi + {threshold}]
        jb      55f
        mov     r13, [rdi + {head}]
        mov     rdx, r13
        sub     rdx, [rdi + {tail}]
        cmp     rdx, {records}
        jae     51f
        mov     r15, r13
        and     r15, {records} - 1
        shl     r15, 6
        add     r15, rsi
        inc     r13
        jmp     52f
51:     lea     r15, [rdi + {spill}]
        inc     qword ptr [rdi + {dropped}]
52:     mov     [r15 + {start_tsc}], r8
        mov     [r15 + {end_tsc}], rax
        mov     r8, rax
        vmnoise_read_steal
        mov     ebx, ecx
        sub     ebx, [rdi + {seen_version}]
        mov     [rdi + {seen_version}], ecx
        mov     [r15 + {version_moves}], rbx
        vmnoise_book {seen_steal}, {steal_ns}
        mov     rdx, [r14 + {light}]
        vmnoise_book {seen_light}, {light_exits}
        mov     rdx, [r14 + {heavy}]
        vmnoise_book {seen_heavy}, {heavy_exits}
        mov     [rdi + {head}], r13     // x86 keeps stores in order: the record is whole
56:     vmnoise_read_clock
        mov     rcx, rax
        sub     rcx, r8
        cmp     rcx, [rdi + {blind_limit}]
        jae     50b
        add     [rdi + {blind}], rcx
        jmp     54f
53:     inc     qword ptr [rdi + {steps_back}]
54:     mov     r8, rax
        mov     [rdi + {last}], rax
        cmp     rax, [rdi + {deadline}]
        jb      41b
        jmp     11b

55: // too short for a gap
        mov     r8, rax
        vmnoise_discard
        jmp     56b

60: // sample: the same step, with one more store
        mov     r9, -1
        xor     ebx, ebx
        vmnoise_read_clock
        mov     r8, rax
    .balign 64, 0x90
61:     vmnoise_step 11b
        mov     [rsi + rbx * 8], rcx
        inc     rbx
        cmp     rbx, {samples}
        jb      61b
        jmp     11b

70: // exercise: another program, which returns to r15
        lea     r15, [rip + 11b]
        mov     eax, {exercises}
        jmp     rax

80: // timers: as above
        lea     r15, [rip + 11b]
        mov     eax, {timer_program}
        jmp     rax
vmnoise_guest_end:

    .purgem vmnoise_read_clock
    .purgem vmnoise_step
    .purgem vmnoise_read_steal
    .purgem vmnoise_book
    .purgem vmnoise_discard
    .popsection
    "#,
    touch = const GuestCommand::Touch as u32,
    stamp = const GuestCommand::Stamp as u32,
    poll = const GuestCommand::Poll as u32,
    sample = const GuestCommand::Sample as u32,
    exercise = const GuestCommand::Exercise as u32,
    go_on = const GuestCommand::GoOn as u32,
    exercises = const EXERCISES,
    timers = const GuestCommand::Timers as u32,
    timer_program = const TIMERS,
    port = const DONE_PORT,
    ring_bytes = const RING_BYTES,
    records = const RING_RECORDS,
    samples = const SAMPLES,
    command = const CONTROL + offset_of!(Control, command),
    deadline = const CONTROL + offset_of!(Control, deadline_tsc),
    threshold = const CONTROL + offset_of!(Control, threshold_tsc),
    look = const CONTROL + offset_of!(Control, look_tsc),
    blind_limit = const CONTROL + offset_of!(Control, blind_limit_tsc),
    exit_counts = const CONTROL + offset_of!(Control, exit_counts),
    last = const offset_of!(Mailbox, heartbeat) + offset_of!(Heartbeat, last_tsc),
    first = const COUNTERS + offset_of!(Counters, first_tsc),
    head = const COUNTERS + offset_of!(Counters, head),
    dropped = const COUNTERS + offset_of!(Counters, dropped),
    blind = const COUNTERS + offset_of!(Counters, blind_tsc),
    steps_back = const COUNTERS + offset_of!(Counters, steps_back),
    first_steal = const COUNTERS + offset_of!(Counters, first_steal_ns),
    first_version = const COUNTERS + offset_of!(Counters, first_version),
    seen_version = const COUNTERS + offset_of!(Counters, seen_version),
    seen_steal = const COUNTERS + offset_of!(Counters, seen_steal_ns),
    seen_light = const COUNTERS + offset_of!(Counters, seen_light),
    seen_heavy = const COUNTERS + offset_of!(Counters, seen_heavy),
    stamp_tsc = const COUNTERS + offset_of!(Counters, stamp_tsc),
    tail = const offset_of!(Mailbox, drained) + offset_of!(DrainedRecords, tail),
    steal = const STEAL + offset_of!(StealPage, steal_ns),
    version = const STEAL + offset_of!(StealPage, version),
    spill = const offset_of!(Mailbox, spill),
    start_tsc = const offset_of!(GapRecord, start_tsc),
    end_tsc = const offset_of!(GapRecord, end_tsc),
    steal_ns = const offset_of!(GapRecord, steal_ns),
    version_moves = const offset_of!(GapRecord, version_moves),
    light_exits = const offset_of!(GapRecord, light_exits),
    heavy_exits = const offset_of!(GapRecord, heavy_exits),
    light = const exit_counts::LIGHT_OFFSET,
    heavy = const exit_counts::HEAVY_OFFSET,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_fits_a_page() {
        assert!(
            (64..4096).contains(&program().len()),
            "{} bytes",
            program().len()
        );
    }
}
