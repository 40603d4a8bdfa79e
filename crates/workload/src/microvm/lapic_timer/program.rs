//! The guest program of the timers. It arms the timer of its interrupt controller and halts. When
//! the interrupt comes, it first reads the clock.
//!
//! The program lies in guest memory next to the program that measures gaps. That program jumps here
//! for the command [`GuestCommand::Timers`](super::super::guest::GuestCommand). `rdi` and `rsi` are
//! then unchanged, and `r15` contains the return address. The program runs at CPL0, because only a
//! kernel may halt and take interrupts.
//!
//! A timer is due at a reading of the clock plus the interval. Its lateness is the reading in the
//! interrupt handler minus the time at which it was due. The program adds the lateness to the
//! [`histogram`](super::super::histogram) before it arms the next timer. So the time for the
//! histogram makes no timer late.

use std::arch::global_asm;
use std::mem::offset_of;

use super::super::histogram::{FINE_BITS, Word, book_length};
use super::super::layout::{STACK, TIMERS};
use crate::mailbox::{Control, Mailbox};

/// Selector of the guest's code segment. An interrupt loads the descriptor of this segment.
pub const CODE_SELECTOR: u16 = 0x30;
/// Interrupt vector of the timer. No exception uses this vector.
const VECTOR: u8 = 0x40;

/// Registers of the interrupt controller, as MSRs of its x2APIC mode (Intel SDM 3A, 11.12).
const APIC_BASE: u32 = 0x1b;
const TASK_PRIORITY: u32 = 0x808;
const END_OF_INTERRUPT: u32 = 0x80b;
const SPURIOUS: u32 = 0x80f;
const TIMER_ENTRY: u32 = 0x832;
const TSC_DEADLINE: u32 = 0x6e0;
/// Value that enables the interrupt controller in x2APIC mode.
const X2APIC: u32 = 0xc00;
/// Value that enables the interrupt controller by software, with a vector for spurious interrupts.
const SOFTWARE_ENABLED: u32 = 0x1ff;
/// Bit in the timer's entry that selects a TSC deadline.
const DEADLINE_MODE: u32 = 1 << 18;

/// Returns the machine code of the program. It is position independent, and its first byte is the
/// entry point.
pub fn program() -> &'static [u8] {
    unsafe extern "C" {
        static vmnoise_timers_start: u8;
        static vmnoise_timers_end: u8;
    }
    let (start, end) = (
        &raw const vmnoise_timers_start,
        &raw const vmnoise_timers_end,
    );
    // SAFETY: both symbols are defined below, in this order, around bytes of one read-only
    // section that lives as long as the program.
    unsafe { std::slice::from_raw_parts(start, end as usize - start as usize) }
}

/// Returns the segment table, which contains a 64-bit code segment. The guest loads no other
/// segment from this table.
pub fn segments() -> [u8; 64] {
    // Flags: present, DPL 0, code, readable, accessed, 64-bit.
    const CODE: u64 = 0x00af_9b00_0000_ffff;
    let mut table = [0; 64];
    let at = CODE_SELECTOR as usize;
    table[at..at + 8].copy_from_slice(&CODE.to_le_bytes());
    table
}

/// Returns the table of interrupt handlers up to the timer's handler, which is the only handler.
pub fn handlers() -> Vec<u8> {
    unsafe extern "C" {
        static vmnoise_timers_start: u8;
        static vmnoise_timers_interrupt: u8;
    }
    let start = &raw const vmnoise_timers_start;
    let interrupt = &raw const vmnoise_timers_interrupt;
    let handler = TIMERS + (interrupt as u64 - start as u64);
    // An interrupt gate with DPL 0 that is present. Interrupts are off in its handler.
    const GATE: u64 = 0x8e00 << 32;
    let low =
        handler & 0xffff | u64::from(CODE_SELECTOR) << 16 | GATE | (handler >> 16 & 0xffff) << 48;
    let at = VECTOR as usize * 16;
    let mut table = vec![0; at + 16];
    table[at..at + 8].copy_from_slice(&low.to_le_bytes());
    table[at + 8..].copy_from_slice(&(handler >> 32).to_le_bytes());
    table
}

const CONTROL: usize = offset_of!(Mailbox, control);

global_asm!(
    r#"
    .pushsection .rodata.vmnoise_timers, "a", @progbits
    "#,
    book_length!(),
    r#"
    // rax = the TSC; spoils rdx.
    .macro vmnoise_read_clock
        rdtsc
        shl     rdx, 32
        or      rax, rdx
    .endm

    // Spoils rax, rcx and rdx.
    .macro vmnoise_write_register register, value
        mov     ecx, \register
        mov     eax, \value
        xor     edx, edx
        wrmsr
    .endm

    .globl  vmnoise_timers_start
    .hidden vmnoise_timers_start
    .globl  vmnoise_timers_interrupt
    .hidden vmnoise_timers_interrupt
    .globl  vmnoise_timers_end
    .hidden vmnoise_timers_end

    .balign 64
vmnoise_timers_start:
        mov     esp, {stack}
        mov     r9, -1                  // the least late
        xor     r10d, r10d              // the latest
        xor     r11d, r11d              // all together
        xor     r12d, r12d              // how many were early
        xor     r13d, r13d              // the earliest
        mov     ecx, {apic_base}
        rdmsr
        or      eax, {x2apic}
        wrmsr
        vmnoise_write_register {spurious}, {software_enabled}
        vmnoise_write_register {task_priority}, 0
        vmnoise_write_register {timer_entry}, {deadline_mode}
        vmnoise_read_clock
        mov     [rsi + {first}], rax

20: // arm
        vmnoise_read_clock
        add     rax, [rdi + {interval}]
        mov     r8, rax
        mov     rdx, rax
        shr     rdx, 32
        mov     ecx, {tsc_deadline}
        wrmsr
21:     sti
        hlt
        cli
        jmp     21b                     // woken up by something else

vmnoise_timers_interrupt:
        vmnoise_read_clock
        mov     r14, rax
        mov     esp, {stack}            // the interrupted code is never resumed
        mov     rbx, rax
        sub     rbx, r8
        jae     22f
        neg     rbx
        inc     r12
        cmp     rbx, r13
        cmova   r13, rbx
        xor     ebx, ebx
22:     vmnoise_book_length
        vmnoise_write_register {end_of_interrupt}, 0
        cmp     r14, [rdi + {deadline}]
        jb      20b
        mov     [rsi + {last}], r14
        mov     [rsi + {min}], r9
        mov     [rsi + {max}], r10
        mov     [rsi + {total}], r11
        mov     [rsi + {early}], r12
        mov     [rsi + {earliest}], r13
        jmp     r15
vmnoise_timers_end:

    .purgem vmnoise_read_clock
    .purgem vmnoise_write_register
    .purgem vmnoise_book_length
    .popsection
    "#,
    stack = const STACK,
    apic_base = const APIC_BASE,
    x2apic = const X2APIC,
    spurious = const SPURIOUS,
    software_enabled = const SOFTWARE_ENABLED,
    task_priority = const TASK_PRIORITY,
    timer_entry = const TIMER_ENTRY,
    deadline_mode = const DEADLINE_MODE | VECTOR as u32,
    tsc_deadline = const TSC_DEADLINE,
    end_of_interrupt = const END_OF_INTERRUPT,
    fine = const 1 << FINE_BITS,
    fine_bits = const FINE_BITS,
    interval = const CONTROL + offset_of!(Control, interval_tsc),
    deadline = const CONTROL + offset_of!(Control, deadline_tsc),
    first = const Word::First.offset(),
    last = const Word::Last.offset(),
    min = const Word::Min.offset(),
    max = const Word::Max.offset(),
    total = const Word::Total.offset(),
    early = const Word::Early.offset(),
    earliest = const Word::Earliest.offset(),
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_fits_its_page_and_arms_halts_and_ends_its_interrupt_once() {
        assert!(program().len() < 4096, "{} bytes", program().len());
        let once: [&[u8]; 3] = [
            &[0xb9, 0xe0, 0x06, 0x00, 0x00, 0x0f, 0x30], // mov ecx, TSC_DEADLINE; wrmsr
            &[0xfb, 0xf4, 0xfa],                         // sti; hlt; cli
            &[0xb9, 0x0b, 0x08, 0x00, 0x00],             // mov ecx, END_OF_INTERRUPT
        ];
        for code in once {
            let found = program().windows(code.len()).filter(|at| *at == code);
            assert_eq!(found.count(), 1, "{code:x?}");
        }
    }

    #[test]
    fn the_handler_begins_with_a_reading_of_the_clock() {
        let table = handlers();
        let gate = &table[VECTOR as usize * 16..];
        assert_eq!(gate[2..6], [CODE_SELECTOR as u8, 0, 0, 0x8e]);
        let handler = u64::from(u16::from_le_bytes([gate[0], gate[1]]))
            | u64::from(u16::from_le_bytes([gate[6], gate[7]])) << 16;
        let offset = usize::try_from(handler - TIMERS).unwrap();
        assert_eq!(program()[offset..offset + 2], [0x0f, 0x31]); // rdtsc
        assert!(table.len() <= 4096 && segments().len() <= 4096);
    }
}
