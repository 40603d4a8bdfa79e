//! Reason of an exit: the number that the hardware or KVM reports, and its name if known.

mod arm64;
mod svm;
mod vmx;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// Numbering scheme of exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Isa {
    /// Intel VMX: basic exit reasons.
    Vmx = 1,
    /// AMD SVM: exit codes.
    Svm = 2,
    /// Exits of arm64 guests. Bits 32 and up of the code hold the exception. Bits 0 to 31 hold the
    /// class of the exception.
    Arm64 = 3,
    /// KVM reports that a guest left, but not the reason. vmnoise sees such an exit as a return of
    /// KVM_RUN.
    KvmRun = 4,
    /// The vCPU's thread was off its CPU, and no probe saw why the guest left. The code is always
    /// 0.
    OffCpu = 5,
}

impl Isa {
    /// Every scheme, ordered by its number in recordings.
    pub const ALL: [Isa; 5] = [Isa::Vmx, Isa::Svm, Isa::Arm64, Isa::KvmRun, Isa::OffCpu];

    /// Returns the scheme with this number, or `None` if this version does not know the number. VMX
    /// and SVM have the numbers that the tracepoint `kvm_exit` uses.
    pub fn from_number(number: u8) -> Option<Isa> {
        Self::ALL.into_iter().find(|isa| isa.number() == number)
    }

    /// Returns the scheme for the argument `isa` of the tracepoint `kvm_exit` (KVM_ISA_VMX and
    /// KVM_ISA_SVM of arch/x86/kvm/trace.h), or `None` for another number.
    pub fn of_kvm_exit(isa: u32) -> Option<Isa> {
        [Isa::Vmx, Isa::Svm]
            .into_iter()
            .find(|it| u32::from(it.number()) == isa)
    }

    /// Returns the number of this scheme in recordings and in BPF records.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

/// Reason why a guest left. A code without a known name is kept unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ExitReason {
    /// Numbering scheme of `code`.
    pub isa: Isa,
    /// Number of the reason in this scheme. For [`Isa::Arm64`], [`ExitReason::arm64`] makes this
    /// number. For [`Isa::KvmRun`], it is `exit_reason` of struct kvm_run
    /// (`include/uapi/linux/kvm.h`).
    pub code: u64,
}

/// Mask of the basic exit reason in a VMX code. The bits above hold flags: enclave, bus lock,
/// failed entry.
const VMX_BASIC: u64 = 0xffff;

impl Isa {
    /// Returns every name that a reason of this scheme can have.
    pub fn reason_names(self) -> impl Iterator<Item = &'static str> {
        let tables = match self {
            Isa::Vmx => [vmx::NAMES, &[]],
            Isa::Svm => [svm::NAMES, &[]],
            Isa::Arm64 => [arm64::EXCEPTIONS, arm64::CLASSES],
            Isa::KvmRun => [KVM_RUN, &[]],
            Isa::OffCpu => [OFF_CPU, &[]],
        };
        tables.into_iter().flatten().map(|&(_, name)| name)
    }
}

impl ExitReason {
    /// Reason of an exit for which only one fact is known: the vCPU's thread was off its CPU.
    pub const OFF_CPU: ExitReason = ExitReason {
        isa: Isa::OffCpu,
        code: 0,
    };

    /// Returns the reason of an arm64 exit, given the fields `ret` and `esr_ec` of `kvm_exit`.
    pub const fn arm64(exception: u32, class: u32) -> ExitReason {
        ExitReason {
            isa: Isa::Arm64,
            code: (exception as u64) << 32 | class as u64,
        }
    }

    /// Returns the name that perf, trace-cmd and the kernel print. If the reason has no name,
    /// returns `unknown_` followed by the code.
    pub fn name(self) -> Cow<'static, str> {
        let (table, code) = match self.isa {
            Isa::Vmx => (vmx::NAMES, self.code & VMX_BASIC),
            Isa::Svm => (svm::NAMES, self.code),
            Isa::Arm64 if self.code >> 32 == arm64::TRAP => {
                (arm64::CLASSES, self.code & 0xffff_ffff)
            }
            Isa::Arm64 => (arm64::EXCEPTIONS, self.code >> 32),
            Isa::KvmRun => (KVM_RUN, self.code),
            Isa::OffCpu => (OFF_CPU, self.code),
        };
        match table.binary_search_by_key(&code, |&(code, _)| code) {
            Ok(found) => Cow::Borrowed(table[found].1),
            Err(_) => Cow::Owned(format!("unknown_{:#x}", self.code)),
        }
    }
}

impl std::fmt::Display for ExitReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.name())
    }
}

const OFF_CPU: &[(u64, &str)] = &[(0, "off_cpu")];

/// Reasons for a return of KVM_RUN: `KVM_EXIT_*` of `include/uapi/linux/kvm.h`, ascending by
/// number.
const KVM_RUN: &[(u64, &str)] = &[
    (0, "UNKNOWN"),
    (1, "EXCEPTION"),
    (2, "IO"),
    (3, "HYPERCALL"),
    (4, "DEBUG"),
    (5, "HLT"),
    (6, "MMIO"),
    (7, "IRQ_WINDOW_OPEN"),
    (8, "SHUTDOWN"),
    (9, "FAIL_ENTRY"),
    (10, "INTR"),
    (11, "SET_TPR"),
    (12, "TPR_ACCESS"),
    (16, "NMI"),
    (17, "INTERNAL_ERROR"),
    (18, "OSI"),
    (19, "PAPR_HCALL"),
    (24, "SYSTEM_EVENT"),
    (26, "IOAPIC_EOI"),
    (27, "HYPERV"),
    (28, "ARM_NISV"),
    (29, "X86_RDMSR"),
    (30, "X86_WRMSR"),
    (31, "DIRTY_RING_FULL"),
    (32, "AP_RESET_HOLD"),
    (33, "X86_BUS_LOCK"),
    (34, "XEN"),
    (37, "NOTIFY"),
    (39, "MEMORY_FAULT"),
];

#[cfg(test)]
mod tests {
    use super::*;

    const fn svm(code: u64) -> ExitReason {
        ExitReason {
            isa: Isa::Svm,
            code,
        }
    }

    const fn vmx(code: u64) -> ExitReason {
        ExitReason {
            isa: Isa::Vmx,
            code,
        }
    }

    #[test]
    fn tables_are_ascending() {
        for table in [
            vmx::NAMES,
            svm::NAMES,
            arm64::CLASSES,
            arm64::EXCEPTIONS,
            KVM_RUN,
        ] {
            assert!(table.is_sorted_by(|a, b| a.0 < b.0), "{table:?}");
        }
    }

    #[test]
    fn names_are_those_of_the_kernel() {
        assert_eq!(vmx(10).name(), "CPUID");
        assert_eq!(svm(0x72).name(), "cpuid");
        assert_eq!(svm(0x400).name(), "npf");
        assert_eq!(svm(u64::MAX).name(), "invalid_guest_state");
        assert_eq!(ExitReason::arm64(2, 0x24).name(), "DABT_LOW");
        assert_eq!(ExitReason::arm64(0, 0).name(), "IRQ");
        assert_eq!(svm(0x999).name(), "unknown_0x999");
    }

    #[test]
    fn flags_of_a_failed_entry_do_not_hide_the_reason() {
        assert_eq!(vmx(1 << 31 | 33).name(), "INVALID_STATE");
    }

    #[test]
    fn numbers_round_trip() {
        for isa in Isa::ALL {
            assert_eq!(Isa::from_number(isa.number()), Some(isa));
        }
        assert_eq!(Isa::from_number(0), None);
    }

    /// Returns pairs of number and string from a kernel header. The header defines the number in
    /// `#define NAME NUMBER` and the string in `{ NAME, "string" }`.
    fn pairs_of_header(path: &str) -> Vec<(u64, String)> {
        let text = std::fs::read_to_string(path)
            .unwrap_or_else(|error| panic!("{path} (package linux-libc-dev): {error}"));
        let number = |text: &str| match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse::<i64>().ok().map(|number| number as u64),
        };
        let numbers: std::collections::HashMap<&str, u64> = text
            .lines()
            .filter_map(|line| {
                let mut words = line.strip_prefix("#define ")?.split_whitespace();
                Some((words.next()?, number(words.next()?)?))
            })
            .collect();
        text.lines()
            .filter_map(|line| {
                let (name, string) = line.trim().strip_prefix("{ ")?.split_once(',')?;
                let string = string.split('"').nth(1)?.to_owned();
                Some((*numbers.get(name)?, string))
            })
            .collect()
    }

    #[test]
    fn every_string_of_the_installed_kernel_headers_is_ours() {
        let folder = "/usr/include/x86_64-linux-gnu/asm";
        let vmx_pairs = pairs_of_header(&format!("{folder}/vmx.h"));
        let svm_pairs = pairs_of_header(&format!("{folder}/svm.h"));
        assert!(vmx_pairs.len() > 50 && svm_pairs.len() > 80);
        // The header also has strings for flags of the reason. They are not exit reasons.
        for (code, name) in vmx_pairs.into_iter().filter(|(code, _)| *code <= VMX_BASIC) {
            assert_eq!(vmx(code).name(), name);
        }
        for (code, name) in svm_pairs {
            assert_eq!(svm(code).name(), name);
        }
    }
}
