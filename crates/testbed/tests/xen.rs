//! Tests the built binary in a guest of Xen. It must identify Xen, and its steal time must equal
//! Xen's own count. A sleeping Dom0 must not be blamed.

use serde_json::Value;
use vmnoise_testbed::bed::XenLab;
use vmnoise_testbed::judge::{assert_budgets_add_up, assert_latencies_add_up, probe_status};
use vmnoise_testbed::lab_program;
use vmnoise_testbed::oracle::report;
use vmnoise_testbed::oracle::xen::{Clock, XenGap, compare, compare_latencies};
use vmnoise_testbed::oracle::xen_slop::{slop, woken};

/// Probes in a guest of Xen, each with its best status.
const BEST: [(&str, &str); 4] = [
    ("host interrupts", "tp_btf"),
    ("host tasks", "tp_btf"),
    ("steal clock of this machine", "xen_runstate by BTF offset"),
    ("steal inside activities", "sampled at begin and end"),
];
/// Commands of the guest. The first lists the machine's probes. The next two measure gaps and
/// wake-ups while Dom0 sleeps. The others measure both while a task of Dom0 never sleeps. Because
/// of TIMER_SLOP, the guest cannot keep a period of 50 us.
const GUEST: [&str; 7] = [
    "vmnoise doctor --format json",
    "vmnoise osnoise -d 500ms --format json",
    "vmnoise timerlat -p 50 -d 200ms --format json",
    "lab-disturb clock",
    "vmnoise osnoise trace -d 500ms",
    "vmnoise timerlat -p 50 -d 500ms --format json",
    "lab-disturb clock",
];
/// Commands of Dom0. The disturber starts when four of the guest's commands have ended.
const DOM0: [&str; 3] = ["lab-xen told 4", "& lab-disturb busy 0", "lab-xen waits 7"];
/// Shortest wait that is compared, nanoseconds. Waits for a CPU take 10 ms; shorter waits are
/// caused by Dom0's own activity.
const WAIT_NS: u64 = 1_000_000;
/// TIMER_SLOP of arch/x86/xen/time.c, nanoseconds.
const SLOP_NS: u64 = 100_000;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// Asserts that the guest's steal time equals Xen's waits. If the vCPU was preempted, both are
/// equal to the nanosecond, because both come from the same clock. If the vCPU slept and was woken,
/// or its wait began before the wake-up was due, records of the same run give bounds.
fn assert_reported_by_xen(compared: &[XenGap]) {
    let sum = |of: fn(&XenGap) -> u64| compared.iter().map(of).sum::<u64>();
    let [steal_ns, least_ns, most_ns] = [
        sum(|it| it.steal_ns),
        sum(|it| it.least_ns),
        sum(|it| it.most_ns),
    ];
    println!(
        "Dom0 busy: {} times, {steal_ns} ns stolen, {least_ns} to {most_ns} ns of waiting by Xen",
        compared.len()
    );
    for one in compared {
        println!("{one:?}");
    }
    for one in compared {
        assert!(
            (one.least_ns..=one.most_ns).contains(&one.steal_ns),
            "{one:?}"
        );
    }
}

mod virtual_time {
    use super::*;

    #[test]
    fn a_pv_guest_reports_what_xen_gave_to_others() {
        let report = XenLab::pv()
            .program(&lab_program("lab-disturb").unwrap())
            .run(&DOM0, &GUEST)
            .unwrap();
        // The guest has no KVM, so `doctor` ends with an error status.
        let doctor: Value = serde_json::from_str(&report.guest[0].stdout).unwrap();
        let quiet = report.guest[1].json().unwrap();
        let punctual = report.guest[2].json().unwrap();
        let trace = report.guest[4].text().unwrap();
        let late = report.guest[5].json().unwrap();
        let clocks = [3, 6].map(|at: usize| report.guest[at].text().unwrap());
        let clock = Clock::of(clocks).unwrap();
        println!("{clock:?}");
        let waits = report.dom0.outputs[1].text().unwrap();

        assert_eq!(doctor["host"]["hypervisor"], "Xen PV");
        for (probe, name) in BEST {
            let reported = probe_status(&doctor, probe);
            assert_eq!(
                (&reported["rung"], &reported["best"]),
                (&name.into(), &true.into())
            );
        }
        for reported in [&doctor, &punctual] {
            let timers = probe_status(reported, "timers");
            assert_eq!(timers["rung"], "xen");
            for (key, words) in [("limit", " 100000 ns "), ("remedy", "xen_timer_slop=5000")] {
                assert!(timers[key].as_str().unwrap().contains(words), "{timers}");
            }
            assert_eq!(probe_status(reported, "clock")["rung"], "xen");
            assert_eq!(probe_status(reported, "TSC")["best"], true);
        }

        assert_budgets_add_up(&quiet);
        for result in [&punctual, &late] {
            assert_latencies_add_up(result);
        }
        let cpu = &quiet["cpus"][0];
        let [stolen_ns, runtime_ns] =
            [&cpu["shares_ns"]["steal"], &cpu["runtime_ns"]].map(|ns| ns.as_u64().unwrap());
        println!("Dom0 asleep: {stolen_ns} ns stolen of {runtime_ns} ns");
        assert!(stolen_ns * 100 < runtime_ns, "{cpu}");

        // A timer fires at the earliest one TIMER_SLOP after it was armed. The next timer is armed
        // only after that.
        let cpu = &punctual["cpus"][0];
        let latency_ns = number(&cpu["user"]["mean_ns"]) * number(&cpu["count"]);
        let stolen_ns = number(&cpu["shares_ns"]["steal"]);
        println!(
            "every 50 us: {}, {stolen_ns} ns stolen of {latency_ns} ns",
            cpu["irq"]
        );
        assert!(number(&cpu["irq"]["p50_ns"]) >= SLOP_NS - 50_000, "{cpu}");
        assert!(number(&cpu["missed"]) >= number(&cpu["count"]), "{cpu}");
        assert!(stolen_ns * 20 < latency_ns, "{cpu}");

        let compared = compare(trace, waits, clock, WAIT_NS).unwrap();
        let steal_ns: u64 = compared.iter().map(|it| it.steal_ns).sum();
        // The guest and Dom0 share one CPU, and each should get half of it.
        assert!(steal_ns > 100_000_000, "{trace}");
        // The first wait is left out, because it began before the measurement.
        assert_reported_by_xen(&compared[1..]);

        let compared = compare_latencies(&late, waits, clock, WAIT_NS).unwrap();
        let worst = late["cpus"][0]["worst"].as_array().unwrap();
        // Each listed wake-up was delayed by a wait. This is also true if the wait began before the
        // task had armed its timer.
        assert_eq!(compared.len(), worst.len(), "{late}");
        assert_reported_by_xen(&compared);
    }
}

mod lab_full {
    mod own_suite {
        use super::super::*;

        #[test]
        fn a_guest_with_less_slop_is_woken_sooner_and_a_boot_repeats() {
            let found = slop().unwrap();
            println!("{}", report::xen(&found));
            let [slow, quick] = &found;
            let again = woken(&XenLab::pv()).unwrap();
            assert_eq!(slow.report.guest, again.report.guest, "to the last bit");
            for reported in [&quick.doctor, &quick.latency] {
                let timers = probe_status(reported, "timers");
                let [name, best] = [&timers["rung"], &timers["best"]];
                assert_eq!((name, best), (&"xen".into(), &true.into()));
            }
            for context in ["irq", "thread", "user"] {
                let [slow, quick] = [slow, quick].map(|it| &it.latency["cpus"][0][context]);
                for figure in ["mean_ns", "p50_ns"] {
                    assert!(number(&quick[figure]) < number(&slow[figure]), "{context}");
                }
            }
            for woken in &found {
                assert_latencies_add_up(&woken.latency);
            }
        }

        #[test]
        fn a_tsc_that_xen_emulates_is_called_that() {
            let lab = XenLab::pv().emulate_tsc();
            let report = lab.run(&[], &GUEST[..1]).unwrap();
            let doctor: Value = serde_json::from_str(&report.guest[0].stdout).unwrap();
            let tsc = probe_status(&doctor, "TSC");
            println!("{tsc}");
            assert!(
                tsc["rung"].as_str().unwrap().starts_with("emulated, "),
                "{tsc}"
            );
            assert!(
                tsc["remedy"].as_str().unwrap().contains("tsc_mode"),
                "{tsc}"
            );
        }

        #[test]
        fn a_pvh_guest_reports_the_same_as_a_pv_guest() {
            assert_reports_the_same(&XenLab::pvh(), "Xen PVH");
        }

        #[test]
        fn an_hvm_guest_reports_the_same_as_a_pv_guest() {
            assert_reports_the_same(&XenLab::hvm(), "Xen HVM");
        }

        fn assert_reports_the_same(lab: &XenLab, hypervisor: &str) {
            let reported = woken(lab).unwrap();
            assert_eq!(reported.doctor["host"]["hypervisor"], hypervisor);
            for (probe, name) in BEST {
                assert_eq!(probe_status(&reported.doctor, probe)["rung"], name);
            }
            assert_eq!(probe_status(&reported.latency, "timers")["rung"], "xen");
            assert_latencies_add_up(&reported.latency);
            let cpu = &reported.latency["cpus"][0];
            println!("every 50 us: {}", cpu["irq"]);
            assert!(number(&cpu["irq"]["p50_ns"]) >= SLOP_NS - 50_000, "{cpu}");
        }
    }
}
