//! Tests a small scenario, from its file to its report.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::program::{ProgramFolder, child_of};

/// A host, guests of KVM on an ordinary and on a real-time kernel, and a PV guest of Xen, all with
/// a load.
const SCENARIO: &str = r#"
title = "A matrix for tests"
source = "none"

[axes]
hypervisor = ["bare", "kvm", "xen"]
host-kernel = ["ordinary", "rt"]
guest-kernel = "ordinary"
load = "system-calls"
tuning = "vcpus-at-fifo99"
period = "100us"

[measure]
workload = "timerlat"
duration = "100ms"

[[conclusion]]
text = "A guest, whose timers are exits, is later than its host"
source = "none"
statistic = "median"
of = "kvm-ordinary"
by = "bare-ordinary"
at-least = 1.2

[[conclusion]]
text = "A guest is no later than its host"
source = "none"
statistic = "median"
of = "kvm-ordinary"
by = "bare-ordinary"
at-most = 1

[[conclusion]]
text = "What was not measured decides nothing"
source = "none"
statistic = "worst"
of = "xen-rt"
by = "xen-ordinary"
at-most = 2
"#;
const CELLS: [&str; 4] = ["bare-ordinary", "kvm-ordinary", "kvm-rt", "xen-ordinary"];

/// vmnoise's own guest, which makes exits on purpose.
const EXITS: &str = r#"
title = "Exits for tests"
source = "none"

[axes]
hypervisor = "microvm"
host-kernel = "ordinary"
exercise = ["cpuid", "io"]

[measure]
workload = "exercise"
duration = "20ms"
repeat = 2
"#;

#[test]
fn what_is_asked_for_is_checked_before_time_is_spent() {
    let place = ProgramFolder::with(SCENARIO);
    let plan = place.said(&["plan", "scenario.toml", "--only", "kvm-rt"]);
    assert!(
        plan.contains("kvm-rt") && plan.contains("linux-image-rt-amd64"),
        "{plan}"
    );
    let refused = place.refused(&["plan", "scenario.toml", "--only", "kvm-none"]);
    assert!(refused.contains("kvm-ordinary, kvm-rt"), "{refused}");
    let refused = place.refused(&["run", "isolation", "--only", "host-isolated"]);
    assert!(refused.contains("vmnoise-lab plan"), "{refused}");
    let refused = place.refused(&["report", "nowhere"]);
    assert!(refused.contains("vmnoise-lab run -o"), "{refused}");
    let refused = place.refused(&["show", "nowhere"]);
    assert!(refused.contains("vmnoise-lab list"), "{refused}");
    let schema: Value = serde_json::from_str(&place.said(&["schema"])).unwrap();
    assert_eq!(schema["title"], "Scenario");
}

mod virtual_time {
    use super::*;

    /// The lengths come from the clock of the guest and from the recording of its host.
    #[test]
    fn an_exit_is_measured_on_both_sides() {
        let place = ProgramFolder::with(EXITS);
        println!("{}", place.said(&["run", "scenario.toml", "-o", "run"]));
        for (cell, [light, heavy]) in [("cpuid", [true, false]), ("io", [false, true])] {
            let ended = place.json(&format!("run/{cell}/cell.json"));
            let repetitions = ended["repetitions"].as_array().unwrap();
            assert_eq!(repetitions.len(), 2, "{ended}");
            for (measured, at) in repetitions.iter().zip(1..) {
                let said = place.json(&format!("run/{cell}/measured-{at}.json"));
                let said = &said["cpus"][0];
                assert_eq!(measured["in_guest_ns"], said["exit_ns"]["p50"]);
                let number = |value: &Value| value.as_u64().unwrap();
                let [of_kvm, of_vmm] = ["light", "heavy"].map(|kind| number(&measured[kind]));
                assert_eq!(
                    [of_kvm > 0, of_vmm > 0],
                    [light, heavy],
                    "{cell}: {measured}"
                );
                assert!(
                    of_kvm + of_vmm >= number(&said["count"]),
                    "{cell}: {measured}"
                );
                // The guest's length includes the transitions out of the guest and back. The host's
                // length does not.
                let least = number(&measured["lengths"][0][0]);
                assert!(
                    least < number(&said["exit_ns"]["min"]),
                    "{cell}: {least} {said}"
                );
                // Lengths are stored with three digits, as the upper end of a bucket.
                let stands_for = 1 << (least >> 10).max(1).ilog2();
                assert!(
                    number(&measured["overhead_ns"]) > least - stands_for,
                    "{cell}: {measured}"
                );
            }
        }
    }

    /// Service managers and `kill` send the signal only to the program, not to its child processes.
    #[test]
    fn who_asks_it_to_end_is_rid_of_its_machines_too() {
        let place = ProgramFolder::with(SCENARIO);
        let arguments = [
            "run",
            "scenario.toml",
            "-o",
            "run",
            "--only",
            "bare-ordinary",
        ];
        let mut run = place.start(&arguments);
        let machine = loop {
            if let Some(machine) = child_of(run.id(), "-icount") {
                break machine;
            }
            assert!(run.try_wait().unwrap().is_none(), "it ended by itself");
            std::thread::sleep(Duration::from_millis(50));
        };
        let signalled = Command::new("kill").arg(run.id().to_string()).status();
        assert!(signalled.unwrap().success());
        let output = run.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("the same command goes on"), "{said}");
        assert!(!Path::new(&format!("/proc/{machine}")).exists());
        assert!(!place.path("run/bare-ordinary/cell.json").exists());
    }

    /// Measures a guest of KVM and a guest of Xen, as the papers do.
    #[test]
    fn a_kvm_cell_and_a_xen_cell_are_measured_and_explained() {
        let cells = ["kvm-ordinary", "xen-ordinary"];
        let place = ProgramFolder::with(SCENARIO);
        let run = ["run", "scenario.toml", "-o", "run", "--only"];
        println!("{}", place.said(&[&run[..], &cells].concat()));
        assert_measured(&place, &cells);
    }
}

/// Checks that these cells were measured, and that the longest wake-up has a cause.
fn assert_measured(place: &ProgramFolder, cells: &[&str]) {
    for cell in cells {
        let ended = place.json(&format!("run/{cell}/cell.json"));
        assert_eq!(ended["failure"], Value::Null, "{ended}");
        let measured = &ended["repetitions"][0];
        let samples = measured["lengths"].as_array().unwrap().iter();
        let samples: u64 = samples.map(|it| it[1].as_u64().unwrap()).sum();
        let who = made_by(measured);
        if cell.starts_with("kvm") {
            // 100 ms have 1,000 periods of 100 us. The first timer is set only when the task has
            // started.
            assert!((990..=1_000).contains(&samples), "{cell}: {samples}");
            // If nothing disturbs a task with a single period, the offset between the clocks is
            // known only up to a number of periods. The run then names no culprit on the host, and
            // has a caveat.
            if measured["is_joined"] == true {
                // The guest sets its timer by a write to an MSR, which KVM handles.
                assert!(who.contains(&"kvm"), "{}", measured["who"]);
            } else {
                assert!(!who.contains(&"kvm"), "{}", measured["who"]);
                let caveats = measured["caveats"].to_string();
                assert!(caveats.contains("nothing proves"), "{caveats}");
            }
        } else if cell.starts_with("xen") {
            // The load of Dom0 takes the only CPU for a time slice. The guest misses the wake-ups
            // in this time.
            assert!(samples > 0);
            assert_eq!(who[0], "steal", "{}", measured["who"]);
        }
    }
}

/// Returns the shares of the longest wake-up, the largest first. Checks that their sum does not
/// exceed the latency of this wake-up.
fn made_by(measured: &Value) -> Vec<&str> {
    println!("{} {}", measured["worst_ns"], measured["who"]);
    let who = measured["who"].as_array().unwrap();
    let named_ns: u64 = who.iter().map(|it| it["ns"].as_u64().unwrap()).sum();
    assert!(named_ns <= measured["worst_ns"].as_u64().unwrap());
    who.iter().map(|it| it["share"].as_str().unwrap()).collect()
}

mod lab_full {
    mod own_suite {
        use super::super::*;

        #[test]
        fn cells_are_measured_once_and_explained() {
            let place = ProgramFolder::with(SCENARIO);
            let run = [&["run", "scenario.toml", "-o", "run", "--only"][..], &CELLS].concat();
            println!("{}", place.said(&run));
            assert_measured(&place, &CELLS);
            let again = place.said(&run);
            for cell in CELLS {
                assert!(
                    again.contains(&format!("{cell}: measured before")),
                    "{again}"
                );
            }
            assert!(!again.contains(": begins"), "{again}");
            place.said(&["merge", "run", "-o", "merged"]);
            place.said(&["report", "merged", "-o", "papers.html"]);
            let (page, csv) = (place.text("papers.html"), place.text("papers.csv"));
            assert_eq!(csv.lines().count(), 1 + CELLS.len(), "{csv}");
            assert!(
                page.contains(">reproduced<") && page.contains(">not reproduced<"),
                "{page}"
            );
            assert!(page.contains("a cell was not measured"), "{page}");
        }

        /// Runs cells of three kinds of machine twice.
        #[test]
        fn the_same_seed_gives_the_same_cells_to_the_last_bit_and_another_does_not() {
            let cells = ["bare-ordinary", "kvm-ordinary", "xen-ordinary"];
            let place = ProgramFolder::with(SCENARIO);
            for folder in ["first", "second"] {
                let run = ["run", "scenario.toml", "-o", folder, "--only"];
                place.said(&[&run[..], &cells].concat());
            }
            let bytes = |name: &str| std::fs::read(place.path(name)).unwrap();
            for cell in cells {
                for file in ["measured-1.vmn", "console.txt"] {
                    let [first, second] =
                        ["first", "second"].map(|folder| bytes(&format!("{folder}/{cell}/{file}")));
                    assert!(first == second, "{cell}/{file}");
                }
            }
            let run = [
                "run",
                "scenario.toml",
                "-o",
                "other",
                "--seed",
                "2",
                "--only",
            ];
            place.said(&[&run[..], &cells].concat());
            for cell in cells {
                let [first, other] =
                    ["first", "other"].map(|it| bytes(&format!("{it}/{cell}/measured-1.vmn")));
                assert!(first != other, "{cell}: nothing comes from the seed");
            }
            let host = ["first", "second"].map(|it| bytes(&format!("{it}/kvm-ordinary/host.vmn")));
            assert!(host[0] == host[1], "the host's recording");
        }
    }
}
