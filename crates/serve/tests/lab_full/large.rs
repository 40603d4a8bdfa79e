//! Tests `vmnoise-serve` and `vmnoise exits` on a host with many CPUs. They start, work and end,
//! and need little memory per CPU.

use std::path::Path;

use serde_json::Value;
use vmnoise_testbed::bed::{DebianKernel, DebianSuite, Lab};
use vmnoise_testbed::lab_program;

use crate::harness::{Metrics, PROGRAM};

const CPUS: u32 = 64;
/// Largest memory for one CPU, in bytes. The kernel keeps 800 bytes for the gate (`struct
/// gate_cpu`) and 384 bytes for exits (`struct exits_cpu`). They count twice if user space has
/// mapped them. Each program has a counter of 64 bytes per CPU, and there are fewer than 40
/// programs. The rest is memory of user space in whole pages. The limit is low enough to detect a
/// page that is allocated for each CPU.
const MOST_BYTES_A_CPU: u64 = 2 * 800 + 40 * 64 + 3 * 4096;

/// Returns the total memory of a process in bytes.
fn bytes(memory: &Value) -> u64 {
    let bytes = |key: &str| memory[key].as_u64().unwrap();
    bytes("resident_bytes") + bytes("bpf_bytes")
}

/// Returns the memory in bytes of `vmnoise-serve` and of `vmnoise exits` on a machine with this
/// number of CPUs.
fn measured(cpus: u32) -> [u64; 2] {
    let mut lab = Lab::kernel(DebianKernel::Cloud)
        .from(DebianSuite::Own)
        .cpus(cpus);
    for program in ["lab-scrape", "lab-memory", "lab-guest"] {
        lab = lab.program(&lab_program(program).unwrap());
    }
    let report = lab.program(Path::new(PROGRAM)).run(&[
        "lab-scrape up",
        "& vmnoise-serve --cost-limit 100",
        "lab-guest works vmnoise-serve",
        "& vmnoise exits top -q",
        "vmnoise microvm --exercise cpuid -d 5s",
        "lab-memory vmnoise-serve",
        "lab-memory vmnoise",
        "lab-scrape 127.0.0.1:9752",
        "vmnoise exits top -q -d 2s --format json",
    ]);
    let report = report.unwrap();
    let [_, _, _, serve, exits, metrics, ended] = &report.outputs[..] else {
        panic!("{} outputs", report.outputs.len())
    };
    let metrics = Metrics::of_text(metrics.text().unwrap());
    assert_eq!(metrics.of("vmnoise_events_missed_total"), 0.0);
    let ended = ended.json().unwrap();
    assert_eq!(ended["losses"]["recursion"], 0, "{ended}");
    let all = [serve, exits].map(|output| output.json().unwrap());
    println!("{cpus} CPUs: serve {}, exits top {}", all[0], all[1]);
    all.each_ref().map(bytes)
}

#[test]
fn each_of_64_cpus_costs_little_more_memory() {
    let (few, many) = (measured(1), measured(CPUS));
    for (name, (few, many)) in ["serve", "exits top"].iter().zip(few.into_iter().zip(many)) {
        let a_cpu = many.saturating_sub(few) / u64::from(CPUS - 1);
        println!("{name}: {few} bytes on one CPU, {a_cpu} more for each further one");
        assert!(a_cpu <= MOST_BYTES_A_CPU, "{name}: {a_cpu}");
    }
}
