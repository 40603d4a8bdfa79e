//! Checks that our names of arm64 exits are the kernel's. The kernel's names come from the format
//! of its tracepoint, and from the output of tracefs for a real guest (`arm64/record.sh`).

use vmnoise_events::{ExitReason, Isa};

const FORMAT: &str = include_str!("arm64/kvm_exit.format");
const TRACE: &str = include_str!("arm64/trace");

/// Value of `ret` in `kvm_exit` for a trapped instruction.
const TRAP: u32 = 2;

/// Returns the table that follows `field` in the tracepoint's format. Its entries look like `{2,
/// "TRAP" }` or `{ (0x16), "HVC64" }`.
fn table(field: &str) -> Vec<(u32, &'static str)> {
    let (_, table) = FORMAT
        .split_once(&format!("__print_symbolic({field}, "))
        .unwrap();
    let table = table.split(" })").next().unwrap();
    let entry = |entry: &'static str| {
        let (number, name) = entry.split_once(',')?;
        let number = number.trim_matches([' ', '{', '(', ')', ',']);
        let number = match number.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => number.parse(),
        };
        Some((number.ok()?, name.split('"').nth(1)?))
    };
    table
        .split('}')
        .map(|it| entry(it.trim_start_matches(", ")).unwrap())
        .collect()
}

#[test]
fn every_name_of_the_kernel_is_ours() {
    let exceptions = table("REC->ret");
    let classes = table("REC->esr_ec");
    assert_eq!((exceptions.len(), classes.len()), (4, 34));
    for (exception, name) in exceptions.into_iter().filter(|(it, _)| *it != TRAP) {
        assert_eq!(ExitReason::arm64(exception, 0).name(), name);
    }
    for (class, name) in classes {
        assert_eq!(ExitReason::arm64(TRAP, class).name(), name);
    }
}

#[test]
fn exits_of_a_real_guest_have_the_names_that_the_kernel_printed() {
    let mut seen = std::collections::BTreeSet::new();
    for line in TRACE.lines() {
        // kvm_exit: TRAP: HSR_EC: 0x0016 (HVC64), PC: 0x000000008000000c
        let Some((_, exit)) = line.split_once("kvm_exit: ") else {
            continue;
        };
        let words: Vec<&str> = exit.split([' ', ':', '(', ')', ',']).collect();
        let [exception, .., class, _, class_name, _, _, _, _, _] = words[..] else {
            panic!("{words:?}");
        };
        let class = u32::from_str_radix(class.strip_prefix("0x").unwrap(), 16).unwrap();
        let exceptions = table("REC->ret").into_iter();
        let (number, _) = exceptions
            .clone()
            .find(|(_, name)| *name == exception)
            .unwrap();
        let name = if number == TRAP {
            class_name
        } else {
            exception
        };
        assert_eq!(ExitReason::arm64(number, class).name(), name, "{line}");
        seen.insert(name);
    }
    let all = [
        "DABT_LOW", "HVC64", "IABT_LOW", "IRQ", "SMC64", "SYS64", "WFx",
    ];
    assert!(seen.into_iter().eq(all));
}

#[test]
fn ends_of_kvm_run_have_the_names_that_the_kernel_printed() {
    let mut count = 0;
    for line in TRACE.lines() {
        // kvm_userspace_exit: reason KVM_EXIT_MMIO (6)
        let Some((_, exit)) = line.split_once("reason KVM_EXIT_") else {
            continue;
        };
        let (name, code) = exit.trim_end_matches(')').split_once(" (").unwrap();
        let (isa, code) = (Isa::KvmRun, code.parse().unwrap());
        assert_eq!(ExitReason { isa, code }.name(), name);
        count += 1;
    }
    assert_eq!(count, 7);
}
