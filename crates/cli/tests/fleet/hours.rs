//! A day of summaries of many hosts, written by the writer of `vmnoise serve`, and the expected
//! answers about them, computed from the plan and not from files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tempfile::TempDir;
use vmnoise_export::{CulpritHour, HostHour, Readers, VmHour, WaitHour, place};

const HOURS: u64 = 24;
const HOUR_NS: u64 = 3_600_000_000_000;
const TASKS: [&str; 5] = [
    "stress-ng",
    "kworker",
    "ksoftirqd",
    "backup",
    "node_exporter",
];
/// Upper bounds of lengths; the last class has none.
const UP_TO_NS: [Option<u64>; 8] = [
    Some(10_000),
    Some(50_000),
    Some(200_000),
    Some(1_000_000),
    Some(5_000_000),
    Some(20_000_000),
    Some(100_000_000),
    None,
];

/// Numbers of hosts, and of VMs on each host.
#[derive(Debug, Clone, Copy)]
pub struct FleetSize {
    pub hosts: u64,
    pub vms: u64,
}

fn host_name(host: u64) -> String {
    format!("node-{host:04}")
}

fn begin(hour: u64) -> Timestamp {
    let base: Timestamp = "2026-03-01T00:00:00Z".parse().unwrap();
    base + SignedDuration::from_hours(hour as i64)
}

fn waits_of(host: u64, hour: u64, vm: u64) -> Vec<WaitHour> {
    // Long waits become more frequent each hour, so that p99 moves from one bound to the next.
    let count = |at: u64| 1_000_000 / 10_u64.pow(at as u32) + hour * 2_000 * at + (host + vm) % 7;
    let waits = UP_TO_NS.iter().zip(0..);
    let waits = waits.map(|(up_to_ns, at)| WaitHour {
        up_to_ns: *up_to_ns,
        waits: count(at),
    });
    waits.collect()
}

fn vm_hour(host: u64, hour: u64, vm: u64) -> VmHour {
    let task_ns = 1_000_000 * (1 + host * 31 % 997 + hour * 7 % 50 + vm);
    let neighbour_ns = 500_000 * ((host + vm) % 3);
    let other_ns = 1_000 * (host % 11);
    let culprit = |kind, name: String, ns| CulpritHour { kind, name, ns };
    let culprits = [
        culprit(
            "foreign",
            TASKS[((host + vm) % 5) as usize].to_owned(),
            task_ns,
        ),
        culprit("vm", format!("vm-{}", (vm + 1) % 20), neighbour_ns),
        culprit("unknown", "other".to_owned(), other_ns),
    ];
    let preempted_ns = task_ns + neighbour_ns + other_ns;
    let (throttled_ns, idle_ns) = (1_000_000 * (host % 5), 2_000_000);
    let halted_ns = HOUR_NS;
    VmHour {
        vm: Some(format!("vm-{vm}")),
        vcpus: 2,
        running_ns: 2 * HOUR_NS - halted_ns - preempted_ns - throttled_ns - idle_ns,
        halted_ns,
        preempted_ns,
        throttled_ns,
        idle_ns,
        culprits: culprits.into_iter().filter(|it| it.ns > 0).collect(),
        waits: waits_of(host, hour, vm),
        ..VmHour::default()
    }
}

/// Sums from which the three questions are answered.
#[derive(Debug, Default)]
struct Sums {
    /// Preempted time and wanted time of the vCPUs, by host and VM.
    vms: BTreeMap<(String, String), (u64, u64)>,
    culprits: BTreeMap<(&'static str, String), (u64, BTreeSet<u64>)>,
    /// Waits by hour and bound.
    waits: BTreeMap<u64, [u64; UP_TO_NS.len()]>,
}

impl Sums {
    fn of(fleet: FleetSize) -> Sums {
        let mut sums = Sums::default();
        for host in 0..fleet.hosts {
            for hour in 0..HOURS {
                for vm in 0..fleet.vms {
                    sums.add(host, hour, &vm_hour(host, hour, vm));
                }
            }
        }
        sums
    }

    fn add(&mut self, host: u64, hour: u64, vm: &VmHour) {
        let name = (host_name(host), vm.vm.clone().unwrap());
        let (preempted_ns, wanted_ns) = self.vms.entry(name).or_default();
        *preempted_ns += vm.preempted_ns;
        *wanted_ns += 2 * HOUR_NS - vm.halted_ns;
        for culprit in &vm.culprits {
            let who = (culprit.kind, culprit.name.clone());
            let (ns, hosts) = self.culprits.entry(who).or_default();
            *ns += culprit.ns;
            hosts.insert(host);
        }
        let waits = self.waits.entry(hour).or_default();
        for (sum, more) in waits.iter_mut().zip(&vm.waits) {
            *sum += more.waits;
        }
    }

    fn worst_vms(&self) -> Vec<(String, String, f64)> {
        let percent = |(preempted, wanted): &(u64, u64)| 100.0 * *preempted as f64 / *wanted as f64;
        let vms = self.vms.iter();
        let vms = vms.map(|((host, vm), sums)| (host.clone(), vm.clone(), percent(sums)));
        let mut vms: Vec<_> = vms.collect();
        // The sort is stable, so hosts and VMs keep their order.
        vms.sort_by(|one, other| other.2.total_cmp(&one.2));
        vms.truncate(10);
        vms
    }

    fn culprits(&self) -> Value {
        let culprits = self.culprits.iter();
        let mut culprits: Vec<_> = culprits
            .map(|((kind, name), (ns, hosts))| (kind, name, *ns, hosts.len()))
            .collect();
        culprits.sort_by_key(|culprit| std::cmp::Reverse(culprit.2));
        culprits.truncate(10);
        let rows = culprits.into_iter();
        rows.map(|(kind, name, ns, hosts)| json!([kind, name, ns as f64, hosts as f64]))
            .collect()
    }

    fn p99_by_hour(&self) -> Value {
        let rows = self.waits.iter().map(|(hour, waits)| {
            let all: u64 = waits.iter().sum();
            let mut until = 0;
            let at = waits.iter().position(|count| {
                until += count;
                until * 100 >= all * 99
            });
            let hour = begin(*hour).to_string().replace('Z', "");
            json!([hour, UP_TO_NS[at.unwrap()].map(|ns| ns as f64)])
        });
        rows.collect()
    }
}

/// Writes the files of all hosts into `fleet` of this folder; returns their number and bytes.
fn write(folder: &Path, fleet: FleetSize) -> (usize, usize) {
    let write = |hosts: Vec<u64>| {
        let mut written = (0, 0);
        for host in hosts {
            for hour in 0..HOURS {
                let summary = HostHour {
                    begin: begin(hour),
                    end: begin(hour + 1),
                    period_ns: HOUR_NS,
                    is_whole: true,
                    tool_version: "1.0.0".to_owned(),
                    missed_events: 0,
                    vcpus_without_room: 0,
                    self_cpu_ns: 18_000_000_000,
                    probe_ns: 20_000_000_000,
                    vms: (0..fleet.vms).map(|vm| vm_hour(host, hour, vm)).collect(),
                };
                let bytes = summary.parquet().unwrap();
                let path = folder.join("fleet").join(summary.place(&host_name(host)));
                place(&path, &bytes, Readers::Anyone).unwrap();
                written = (written.0 + 1, written.1 + bytes.len());
            }
        }
        written
    };
    std::thread::scope(|scope| {
        let halves = [0, 1].map(|half| (0..fleet.hosts).filter(|host| host % 2 == half).collect());
        let threads = halves.map(|hosts| scope.spawn(move || write(hosts)));
        let written = threads.map(|thread| thread.join().unwrap());
        (written[0].0 + written[1].0, written[0].1 + written[1].1)
    })
}

/// Creates a fleet's data set, and prints its size and the time.
pub fn data_set(fleet: FleetSize) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let (files, bytes) = write(folder.path(), fleet);
    println!(
        "{fleet:?}: {files} files of {} bytes each, {bytes} together, written in {:?}",
        bytes / files,
        begun.elapsed()
    );
    folder
}

/// Checks that the answers of an engine are those of the plan, so that all engines agree.
pub fn assert_answers_as_planned(engine: &str, folder: &TempDir, fleet: FleetSize) {
    let found = super::run_script("ask_hours.py", engine, folder);
    println!("{engine}: seconds {}", found["seconds"]);
    let (found, sums) = (&found["answers"], Sums::of(fleet));
    let worst = found["worst_vms"].as_array().unwrap();
    let expected = sums.worst_vms();
    assert_eq!(worst.len(), expected.len());
    for (row, (host, vm, percent)) in worst.iter().zip(&expected) {
        assert_eq!((&row[0], &row[1]), (&host[..].into(), &vm[..].into()));
        assert!(super::is_about(&row[2], *percent), "{row} is not {percent}");
    }
    let as_numbers = |rows: &Value, from: usize| -> Value {
        let number = |at: usize, value: &Value| match value.as_f64() {
            Some(number) if at >= from => json!(number),
            _ => value.clone(),
        };
        let rows = rows.as_array().unwrap().iter();
        rows.map(|row| {
            let cells = row.as_array().unwrap().iter().enumerate();
            cells.map(|(at, cell)| number(at, cell)).collect::<Value>()
        })
        .collect()
    };
    assert_eq!(as_numbers(&found["culprits"], 2), sums.culprits());
    assert_eq!(as_numbers(&found["p99_by_hour"], 1), sums.p99_by_hour());
}
