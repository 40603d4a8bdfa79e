//! Tests the count of runs that the kernel left out, because the program was already running.

use std::ffi::OsStr;

use libbpf_rs::{Object, ObjectBuilder, ProgramInput, ProgramMut};

use crate::accounting::misses_of;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/misses_test.bpf.o"));
/// Program that causes its own event.
const TWICE: &str = "page_fault_kernel";

fn program<'object>(object: &'object Object, name: &str) -> ProgramMut<'object> {
    let mut programs = object.progs_mut();
    programs.find(|it| it.name() == name).unwrap()
}

#[test]
fn each_missed_run_of_a_chosen_program_counts() {
    let open = ObjectBuilder::default().open_memory(OBJECT).unwrap();
    let object = open.load().unwrap();
    let _attached = program(&object, TWICE).attach().unwrap();
    let all = || misses_of(&object, &|_| true).unwrap();
    assert_eq!(all(), 0);
    for faults in 1..=3 {
        let causes_fault = program(&object, "test_fault");
        causes_fault.test_run(ProgramInput::default()).unwrap();
        // The kernel may try the read again in smaller pieces, and each try is a fault.
        let misses = all();
        assert!(misses >= faults, "{misses} after {faults} faults");
    }
    let of = |name: &str| misses_of(&object, &|it: &OsStr| it == name).unwrap();
    assert_eq!(of(TWICE), all());
    assert_eq!(of("test_fault"), 0);
}
