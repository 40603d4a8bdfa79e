//! The built binary in a guest of Xen: it knows what it is in, its steal is what Xen itself
//! has in its books, and a Dom0 that sleeps is not blamed.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

use serde_json::Value;
use vmnoise_labs::bed::XenLab;
use vmnoise_labs::judge::{assert_budgets_add_up, rung};
use vmnoise_labs::lab_program;
use vmnoise_labs::oracle::xen::compare;

/// Each at the best rung that there is.
const BEST: [(&str, &str); 4] = [
    ("host interrupts", "tp_btf"),
    ("host tasks", "tp_btf"),
    ("steal clock of this machine", "xen_runstate by BTF offset"),
    ("steal inside activities", "sampled at begin and end"),
];
/// In the guest: a look at the machine, half a second beside a Dom0 that sleeps, and one
/// beside a task of Dom0 that never does.
const GUEST: [&str; 3] = [
    "vmnoise doctor --format json",
    "vmnoise osnoise -d 500ms --format json",
    "vmnoise osnoise trace -d 500ms",
];
/// In Dom0.
const DOM0: [&str; 3] = ["lab-xen told 2", "& lab-disturb busy 0", "lab-xen waits 3"];
/// Waits for a CPU are 10 ms long; what is shorter is what Dom0 does by itself.
const WAIT_NS: u64 = 1_000_000;

mod lab {
    use super::*;

    #[test]
    fn a_pv_guest_tells_what_xen_gave_to_others() {
        let report = XenLab::pv()
            .program(&lab_program("lab-disturb").unwrap())
            .run(&DOM0, &GUEST)
            .unwrap();
        // There is no KVM in it, which doctor tells by its status.
        let doctor: Value = serde_json::from_str(&report.guest[0].stdout).unwrap();
        let quiet = report.guest[1].json().unwrap();
        let trace = report.guest[2].text().unwrap();
        let waits = report.dom0.outputs[1].text().unwrap();

        assert_eq!(doctor["host"]["hypervisor"], "Xen PV");
        for (probe, name) in BEST {
            let told = rung(&doctor, probe);
            assert_eq!((&told["rung"], &told["best"]), (&name.into(), &true.into()));
        }
        // TIMER_SLOP of arch/x86/xen/time.c.
        let timers = rung(&doctor, "timers");
        assert_eq!(timers["rung"], "xen");
        assert!(
            timers["limit"].as_str().unwrap().contains(" 100000 ns "),
            "{timers}"
        );

        assert_budgets_add_up(&quiet);
        let cpu = &quiet["cpus"][0];
        let [stolen_ns, runtime_ns] =
            [&cpu["shares_ns"]["steal"], &cpu["runtime_ns"]].map(|ns| ns.as_u64().unwrap());
        println!("Dom0 asleep: {stolen_ns} ns stolen of {runtime_ns} ns");
        assert!(stolen_ns * 100 < runtime_ns, "{cpu}");

        let compared = compare(trace, waits, WAIT_NS).unwrap();
        let steal_ns: u64 = compared.iter().map(|it| it.steal_ns).sum();
        let waited_ns: u64 = compared.iter().map(|it| it.waited_ns).sum();
        println!(
            "Dom0 busy: {} gaps, {steal_ns} ns stolen, {waited_ns} ns of waiting in Xen's books",
            compared.len()
        );
        // The two share one CPU, and are due half of it each.
        assert!(steal_ns > 100_000_000, "{trace}");
        // What is left of the first one began before the measurement.
        for one in &compared[1..] {
            assert!(
                one.steal_ns.abs_diff(one.waited_ns) * 20 < one.waited_ns,
                "{one:?}"
            );
        }
    }
}

mod lab_full {
    mod own_suite {
        use super::super::*;

        #[test]
        fn timers_of_a_guest_are_as_soon_as_its_command_line_says() {
            let lab = XenLab::pv().command_line("xen_timer_slop=5000");
            let report = lab.run(&[], &GUEST[..1]).unwrap();
            let doctor: Value = serde_json::from_str(&report.guest[0].stdout).unwrap();
            let timers = rung(&doctor, "timers");
            assert_eq!(
                (&timers["rung"], &timers["best"]),
                (&"xen".into(), &true.into())
            );
        }
    }
}
