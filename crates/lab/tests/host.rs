//! `--accel kvm`: on a host whose KVM is emulated whole, and what it says where there is none.

use serde_json::Value;

use crate::program::Place;

/// A guest of its own kind of kernel and one of the other, beside a load.
const RUN: &str = "vmnoise-lab run kvm-and-xen-under-load --accel kvm -o /tmp/run --only kvm-ordinary-ordinary kvm-rt-rt";

#[test]
fn a_plan_for_this_machine_says_what_is_not_run_and_what_happens_to_it() {
    let place = Place::with("");
    let plan = place.said(&["plan", "kvm-and-xen", "--accel", "kvm"]);
    assert!(plan.contains("`--accel tcg`"), "cells of Xen: {plan}");
    assert!(plan.contains("reboot into a"), "of another kernel: {plan}");
    assert!(
        plan.contains("No setting of this machine is changed"),
        "{plan}"
    );
    assert!(!plan.contains("xen-system"), "{plan}");
}

mod lab_full {
    mod own_suite {
        use std::path::Path;

        use vmnoise_labs::bed::{CommandOutput, Kernel, Lab};
        use vmnoise_labs::lab_program;

        use super::super::*;

        #[test]
        fn a_host_boots_its_guest_itself_and_explains_it() {
            let mut lab = Lab::kernel(Kernel::Cloud).virtual_time(0).boots_guests();
            lab = lab.program(Path::new(env!("CARGO_BIN_EXE_vmnoise-lab")));
            for program in [
                "lab-init",
                "lab-tied",
                "lab-guest",
                "lab-vmm",
                "lab-disturb",
            ] {
                lab = lab.program(&lab_program(program).unwrap());
            }
            let show = "lab-guest print /tmp/run/kvm-ordinary-ordinary/cell.json";
            let report = lab.run(&[RUN, show]).unwrap();
            let [run, cell] = &report.outputs[..] else {
                panic!("{:?}", report.outputs)
            };
            println!("{}{}", run.stdout, run.stderr);
            let said = |output: &CommandOutput| output.text().unwrap().to_owned();
            let told = said(run);
            assert!(
                told.contains("kvm-rt-rt: not run: reboot into a PREEMPT_RT kernel"),
                "{told}"
            );
            let cell: Value = serde_json::from_slice(&cell.file().unwrap()).unwrap();
            assert_eq!(cell["failure"], Value::Null, "{cell}");
            assert_eq!(cell["accel"], "kvm");
            let commands = cell["commands"].to_string();
            assert!(
                commands.contains("host: vmnoise exits")
                    && commands.contains("lab-disturb calls 0"),
                "{commands}"
            );
            let measured = &cell["repetitions"][0];
            println!(
                "{} {} {}",
                measured["worst_ns"], measured["who"], measured["caveats"]
            );
            assert_eq!(measured["is_joined"], true, "{}", measured["caveats"]);
        }
    }
}
