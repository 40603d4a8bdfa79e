//! The guest program of the exercises. It makes one exit after another, and measures the time of
//! each exit.
//!
//! The program lies in guest memory next to the program that measures gaps. That program jumps here
//! for the command [`GuestCommand::Exercise`](super::super::guest::GuestCommand). `rdi` and `rsi`
//! are then unchanged, and `r15` contains the return address. Each exit is made between two
//! readings of the clock. The program adds their difference to the
//! [`histogram`](super::super::histogram) before the next reading. So the time for the histogram is
//! not part of any exit's time.

use std::arch::global_asm;
use std::mem::offset_of;

use super::super::histogram::{FINE_BITS, Word, book_length};
use super::Exercise;
use crate::mailbox::{Control, Mailbox};

/// I/O port to which the guest writes. No device in KVM uses this port.
pub const PORT: u16 = 0xf4;
/// Number of the hypercall `KVM_HC_VAPIC_POLL_IRQ` of Documentation/virt/kvm/x86/hypercalls.rst,
/// which does nothing. At CPL3, KVM refuses every hypercall with -KVM_EPERM, but the exit happens
/// nevertheless.
const HYPERCALL: u32 = 1;

/// Returns the machine code of the program. It is position independent, and its first byte is the
/// entry point.
pub fn program() -> &'static [u8] {
    unsafe extern "C" {
        static vmnoise_exercise_start: u8;
        static vmnoise_exercise_end: u8;
    }
    let start = &raw const vmnoise_exercise_start;
    let end = &raw const vmnoise_exercise_end;
    // SAFETY: both symbols are defined below, in this order, around bytes of one
    // read-only section that lives as long as the program.
    unsafe { std::slice::from_raw_parts(start, end as usize - start as usize) }
}

const CONTROL: usize = offset_of!(Mailbox, control);

global_asm!(
    r#"
    .pushsection .rodata.vmnoise_exercise, "a", @progbits
    "#,
    book_length!(),
    r#"

    // rax = the TSC; spoils rdx.
    .macro vmnoise_read_clock
        rdtsc
        shl     rdx, 32
        or      rax, rdx
    .endm

    // If the command is exercise \number, repeats \exit until label 20 ends it.
    // The instruction may spoil rax, rbx, rcx and rdx.
    .macro vmnoise_exit number, exit:vararg
        cmp     eax, \number
        jne     79f
        lea     r14, [rip + 78f]
        .balign 64, 0x90
    78: vmnoise_read_clock
        mov     r8, rax
        mov     eax, {hypercall}
        xor     ecx, ecx
        \exit
        vmnoise_read_clock
        jmp     20f
    79:
    .endm

    .globl  vmnoise_exercise_start
    .hidden vmnoise_exercise_start
    .globl  vmnoise_exercise_end
    .hidden vmnoise_exercise_end

    .balign 64
vmnoise_exercise_start:
        mov     r9, -1                  // the shortest
        xor     r10d, r10d              // the longest
        xor     r11d, r11d              // all together
        mov     r13, [rdi + {unbacked}]
        vmnoise_read_clock
        mov     [rsi + {first}], rax
        mov     eax, [rdi + {exercise}]
        vmnoise_exit {cpuid}, cpuid
        vmnoise_exit {io}, out {port}, al
        vmnoise_exit {mmio}, mov eax, [r13]
        vmnoise_exit {vmcall}, vmcall
        vmnoise_exit {vmmcall}, vmmcall
        vmnoise_exit {hlt}, hlt
        vmnoise_exit {spin}
        ud2                             // no IDT: the host sees a shutdown

20: // rax - r8 is the time of one exit, unless the clock stepped back
        mov     rbx, rax
        sub     rbx, r8
        jb      22f
        vmnoise_book_length
22:     cmp     rax, [rdi + {deadline}]
        jae     23f
        jmp     r14
23:     mov     [rsi + {last}], rax
        mov     [rsi + {min}], r9
        mov     [rsi + {max}], r10
        mov     [rsi + {total}], r11
        jmp     r15
vmnoise_exercise_end:

    .purgem vmnoise_read_clock
    .purgem vmnoise_exit
    .purgem vmnoise_book_length
    .popsection
    "#,
    cpuid = const Exercise::Cpuid as u32,
    io = const Exercise::Io as u32,
    mmio = const Exercise::Mmio as u32,
    vmcall = const VMCALL,
    vmmcall = const VMMCALL,
    hlt = const Exercise::Hlt as u32,
    spin = const Exercise::Spin as u32,
    port = const PORT,
    hypercall = const HYPERCALL,
    fine = const 1 << FINE_BITS,
    fine_bits = const FINE_BITS,
    exercise = const CONTROL + offset_of!(Control, exercise),
    unbacked = const CONTROL + offset_of!(Control, unbacked),
    deadline = const CONTROL + offset_of!(Control, deadline_tsc),
    first = const Word::First.offset(),
    last = const Word::Last.offset(),
    min = const Word::Min.offset(),
    max = const Word::Max.offset(),
    total = const Word::Total.offset(),
);

/// Command for the guest to use the hypercall instruction of Intel's CPUs.
const VMCALL: u32 = Exercise::Hypercall as u32;
/// Command for the guest to use the hypercall instruction of AMD's CPUs.
const VMMCALL: u32 = VMCALL | 0x100;

/// Returns the guest's command for this exercise. Each vendor's CPU has its own hypercall
/// instruction.
pub fn order(exercise: Exercise) -> u32 {
    let amd = matches!(&vendor(), b"AuthenticAMD" | b"HygonGenuine");
    match exercise {
        Exercise::Hypercall if amd => VMMCALL,
        other => other as u32,
    }
}

fn vendor() -> [u8; 12] {
    let leaf = std::arch::x86_64::__cpuid(0);
    let mut name = [0; 12];
    for (part, register) in name.chunks_exact_mut(4).zip([leaf.ebx, leaf.edx, leaf.ecx]) {
        part.copy_from_slice(&register.to_le_bytes());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_fits_its_page_and_holds_each_exit() {
        assert!(program().len() < 4096, "{} bytes", program().len());
        let exits: [&[u8]; 6] = [
            &[0x0f, 0xa2],             // cpuid
            &[0xe6, PORT as u8],       // out
            &[0x41, 0x8b, 0x45, 0x00], // mov eax, [r13]
            &[0x0f, 0x01, 0xc1],       // vmcall
            &[0x0f, 0x01, 0xd9],       // vmmcall
            &[0x31, 0xc9, 0xf4],       // xor ecx, ecx; hlt
        ];
        for exit in exits {
            let found = program().windows(exit.len()).filter(|at| *at == exit);
            assert_eq!(found.count(), 1, "{exit:x?}");
        }
    }

    #[test]
    fn orders_are_told_apart() {
        let mut orders: Vec<u32> = Exercise::ALL.into_iter().map(order).collect();
        orders.push(VMCALL ^ order(Exercise::Hypercall) ^ VMMCALL);
        orders.sort_unstable();
        orders.dedup();
        assert_eq!(orders.len(), Exercise::ALL.len() + 1);
    }
}
