//! Tests `--accel kvm` on a host with emulated KVM, and `--accel xen` in a Dom0 on an emulated
//! machine. Also tests the messages if neither KVM nor Xen is available.

use serde_json::Value;

use crate::program::ProgramFolder;

/// Runs two guests with a load. One needs the running host kernel, and the other needs another
/// kernel.
const RUN: &str = "vmnoise-lab run kvm-and-xen-under-load --accel kvm -o /tmp/run --only kvm-ordinary-ordinary kvm-rt-rt";
/// Runs two guests in a Dom0. One needs the running kernel of Dom0, and the other needs another
/// kernel.
const RUN_IN_DOM0: &str = "vmnoise-lab run xen-guest-types --accel xen --repeat 1 -o /tmp/run --only \
                           pvh-ordinary-ordinary pvh-rt-ordinary";

#[test]
fn a_plan_for_this_machine_says_what_is_not_run_and_what_happens_to_it() {
    let place = ProgramFolder::with("");
    let plan = place.said(&["plan", "kvm-and-xen", "--accel", "kvm"]);
    assert!(plan.contains("`--accel xen`"), "cells of Xen: {plan}");
    assert!(plan.contains("reboot into a"), "of another kernel: {plan}");
    assert!(
        plan.contains("No setting of this machine is changed"),
        "{plan}"
    );
    assert!(!plan.contains("xen-system"), "{plan}");
}

/// Tests never run in a Dom0.
#[test]
fn without_xen_a_plan_says_what_to_boot_and_nothing_is_run() {
    let place = ProgramFolder::with("");
    let remedy = "boot Xen and this kernel as its Dom0 (package xen-system-amd64)";
    let plan = place.said(&["plan", "kvm-and-xen", "--accel", "xen"]);
    assert!(plan.contains(remedy), "{plan}");
    assert!(plan.contains("`--accel kvm`"), "cells of KVM: {plan}");
    assert!(plan.contains("reboot into a"), "of another kernel: {plan}");
    assert!(!plan.contains("as Dom0 of Xen"), "there is none: {plan}");
    let refused = place.refused(&["run", "kvm-and-xen", "--accel", "xen", "-o", "run"]);
    assert!(refused.contains(remedy), "{refused}");
    assert_eq!(refused.trim().lines().count(), 1, "{refused}");
    assert!(!place.path("run").exists());
}

mod lab_full {
    mod own_suite {
        use std::path::PathBuf;

        use vmnoise_testbed::bed::{CommandOutput, DebianKernel, Lab, XenLab};
        use vmnoise_testbed::lab_program;

        use super::super::*;

        /// Returns the programs that a machine needs to boot guests.
        fn programs() -> Vec<PathBuf> {
            let mut programs: Vec<PathBuf> = vec![env!("CARGO_BIN_EXE_vmnoise-lab").into()];
            for program in [
                "lab-init",
                "lab-tied",
                "lab-guest",
                "lab-vmm",
                "lab-disturb",
            ] {
                programs.push(lab_program(program).unwrap());
            }
            programs
        }

        /// Returns the result of the cell that a run has measured. The output must contain
        /// `refused`, the reason why the other cell did not run.
        fn measured(run: &CommandOutput, cell: &CommandOutput, refused: &str) -> Value {
            println!("{}{}", run.stdout, run.stderr);
            let told = run.text().unwrap();
            assert!(told.contains(refused), "{told}");
            let cell: Value = serde_json::from_slice(&cell.file().unwrap()).unwrap();
            assert_eq!(cell["failure"], Value::Null, "{cell}");
            let measured = &cell["repetitions"][0];
            println!(
                "{} {} {}",
                measured["worst_ns"], measured["who"], measured["caveats"]
            );
            cell
        }

        #[test]
        fn a_host_boots_its_guest_itself_and_explains_it() {
            let mut lab = Lab::kernel(DebianKernel::Cloud)
                .virtual_time(0)
                .boots_guests();
            for program in programs() {
                lab = lab.program(&program);
            }
            let show = "lab-guest print /tmp/run/kvm-ordinary-ordinary/cell.json";
            let report = lab.run(&[RUN, show]).unwrap();
            let [run, cell] = &report.outputs[..] else {
                panic!("{:?}", report.outputs)
            };
            let refused = "kvm-rt-rt: not run: reboot into a PREEMPT_RT kernel";
            let cell = measured(run, cell, refused);
            assert_eq!(cell["accel"], "kvm");
            let commands = cell["commands"].to_string();
            assert!(
                commands.contains("host: vmnoise exits")
                    && commands.contains("host: lab-disturb calls 0"),
                "{commands}"
            );
            let measured = &cell["repetitions"][0];
            assert_eq!(measured["is_joined"], true, "{}", measured["caveats"]);
        }

        #[test]
        fn a_dom0_creates_its_guest_itself_and_leaves_none() {
            let mut lab = XenLab::pvh().virtual_time(0);
            lab = lab.program(&lab_program("lab-domain").unwrap());
            for program in programs() {
                lab = lab.program(&program);
            }
            let show = "lab-guest print /tmp/run/pvh-ordinary-ordinary/cell.json";
            let report = lab.run_dom0(&[RUN_IN_DOM0, show, "xl list"]).unwrap();
            let [run, cell, domains] = &report.outputs[..] else {
                panic!("{:?}", report.outputs)
            };
            let refused = "pvh-rt-ordinary: not run: reboot into a PREEMPT_RT kernel";
            let cell = measured(run, cell, refused);
            assert_eq!(cell["accel"], "xen");
            let commands = cell["commands"].to_string();
            for words in [
                "Dom0: xl create",
                "xen_timer_slop=1000",
                "Dom0: lab-disturb calls 0",
            ] {
                assert!(commands.contains(words), "{words}: {commands}");
            }
            // Dom0 and the guest share the only CPU.
            let measured = &cell["repetitions"][0];
            assert_eq!(measured["who"][0]["share"], "steal", "{measured}");
            assert_eq!(cell["machine"]["xen"]["scheduler"], "credit2", "{cell}");
            let caveats = measured["caveats"].to_string();
            assert!(caveats.contains("share the only CPU"), "{caveats}");
            let domains = domains.text().unwrap();
            assert!(
                domains.contains("Domain-0") && !domains.contains("vmnoise-lab"),
                "{domains}"
            );
        }
    }
}
