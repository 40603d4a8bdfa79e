//! Exit reasons of arm64 guests, with the names that the tracepoint `kvm_exit` prints. Names of
//! exceptions come from `arch/arm64/include/asm/kvm_asm.h`. A trap has the name of its class from
//! `arch/arm64/include/asm/esr.h`.

/// Value of `ret` in `kvm_exit` for a trapped instruction. The exception class then names the trap.
pub(super) const TRAP: u64 = 2;

/// Exception code and name, ascending by code.
pub(super) const EXCEPTIONS: &[(u64, &str)] = &[
    (0, "IRQ"),
    (1, "SERROR"),
    (TRAP, "TRAP"),
    (3, "ILLEGAL"),
    (0x0bad_ca11, "HYP_GONE"),
];

/// Exception class and name, ascending by class.
pub(super) const CLASSES: &[(u64, &str)] = &[
    (0x0, "UNKNOWN"),
    (0x1, "WFx"),
    (0x3, "CP15_32"),
    (0x4, "CP15_64"),
    (0x5, "CP14_MR"),
    (0x6, "CP14_LS"),
    (0x7, "FP_ASIMD"),
    (0x8, "CP10_ID"),
    (0x9, "PAC"),
    (0xc, "CP14_64"),
    (0xd, "BTI"),
    (0x11, "SVC32"),
    (0x12, "HVC32"),
    (0x13, "SMC32"),
    (0x15, "SVC64"),
    (0x16, "HVC64"),
    (0x17, "SMC64"),
    (0x18, "SYS64"),
    (0x19, "SVE"),
    (0x1a, "ERET"),
    (0x1c, "FPAC"),
    (0x1d, "SME"),
    (0x1f, "IMP_DEF"),
    (0x20, "IABT_LOW"),
    (0x21, "IABT_CUR"),
    (0x22, "PC_ALIGN"),
    (0x24, "DABT_LOW"),
    (0x25, "DABT_CUR"),
    (0x26, "SP_ALIGN"),
    (0x27, "MOPS"),
    (0x28, "FP_EXC32"),
    (0x2c, "FP_EXC64"),
    (0x2d, "GCS"),
    (0x2f, "SERROR"),
    (0x30, "BREAKPT_LOW"),
    (0x31, "BREAKPT_CUR"),
    (0x32, "SOFTSTP_LOW"),
    (0x33, "SOFTSTP_CUR"),
    (0x34, "WATCHPT_LOW"),
    (0x35, "WATCHPT_CUR"),
    (0x38, "BKPT32"),
    (0x3a, "VECTOR32"),
    (0x3c, "BRK64"),
];
