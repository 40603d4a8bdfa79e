//! Tests the built binary in stock kernels that this machine does not run. Every probe must have
//! its best status, every exit must be counted, and nothing may be lost.

use serde_json::Value;
use vmnoise_testbed::bed::{DebianKernel, DebianSuite, Lab};
use vmnoise_testbed::judge::{
    assert_budgets_add_up, assert_exits_are_seen, assert_tick, probe_status,
};

/// The first commands of a user: `doctor`, and a second of each workload.
const COMMANDS: [&str; 3] = [
    "vmnoise doctor --format json",
    "vmnoise microvm --duration 1s --format json",
    "vmnoise osnoise --duration 1s --format json",
];

/// Probes of a host that need BPF.
const WITNESSES: [&str; 6] = [
    "host interrupts",
    "host soft interrupts",
    "host NMIs",
    "host tasks",
    "KVM_RUN left and entered",
    "VM exits",
];

/// Probes of `vmnoise exits`, each with its best status.
const EXITS: [(&str, &str); 4] = [
    ("exits of every VM", "tp_btf, counted in the kernel"),
    ("exit reasons", "BTF of kvm_amd"),
    ("exits one by one", "BPF ring buffer"),
    (
        "clocks of the guests",
        "BPF iterator over files, changes dated by tp_btf",
    ),
];

fn assert_works_on(kernel: DebianKernel, suite: DebianSuite) {
    let report = Lab::kernel(kernel).from(suite).run(&COMMANDS).unwrap();
    println!("{suite:?} {kernel:?}: Linux {}", report.kernel_version);
    let [doctor, microvm, osnoise] = [0, 1, 2].map(|which| report.outputs[which].json().unwrap());

    assert_eq!(doctor["host"]["kernel"], report.kernel_version);
    for probe in WITNESSES {
        assert_eq!(probe_status(&doctor, probe)["rung"], "tp_btf", "{probe}");
    }
    for (probe, name) in EXITS {
        assert_eq!(probe_status(&doctor, probe)["rung"], name, "{probe}");
        assert_eq!(probe_status(&doctor, probe)["best"], true, "{probe}");
    }

    assert_exits_are_seen(&microvm);
    assert_nothing_lost(&microvm, kernel);

    assert_budgets_add_up(&osnoise);
    assert_tick(&osnoise, "irq");
    assert_nothing_lost(&osnoise, kernel);
    // Without a steal clock, the steal time is unknown, not zero.
    let cpu = &osnoise["cpus"][0];
    assert!(cpu["shares_ns"]["steal"].is_null(), "{cpu}");
    assert!(cpu["shares_ns"]["hw"].is_null(), "{cpu}");
    assert!(cpu["exits"]["heavy"].is_null(), "{cpu}");
}

/// Asserts that nothing is lost. On PREEMPT_RT, unpaired softirqs are allowed, because preempted
/// softirqs are always unpaired.
fn assert_nothing_lost(summary: &Value, kernel: DebianKernel) {
    for (kind, count) in summary["losses"].as_object().unwrap() {
        let by_nature = kernel == DebianKernel::Rt && kind == "unpaired";
        assert!(by_nature || count == 0, "{}", summary["losses"]);
    }
}

mod lab {
    use super::*;

    mod own_suite {
        use super::*;

        #[test]
        fn cloud() {
            assert_works_on(DebianKernel::Cloud, DebianSuite::Own);
        }

        #[test]
        fn rt() {
            assert_works_on(DebianKernel::Rt, DebianSuite::Own);
        }
    }
}

mod lab_full {
    use super::*;

    mod trixie {
        use super::*;

        #[test]
        fn cloud() {
            assert_works_on(DebianKernel::Cloud, DebianSuite::Trixie);
        }

        #[test]
        fn rt() {
            assert_works_on(DebianKernel::Rt, DebianSuite::Trixie);
        }
    }

    mod trixie_backports {
        use super::*;

        #[test]
        fn cloud() {
            assert_works_on(DebianKernel::Cloud, DebianSuite::TrixieBackports);
        }

        #[test]
        fn rt() {
            assert_works_on(DebianKernel::Rt, DebianSuite::TrixieBackports);
        }
    }
}
