//! What a run will take, before anything is done.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::num::NonZero;
use std::thread::available_parallelism;
use std::time::Duration;

use vmnoise_labs::bed::Part;

use crate::emulation;
use crate::scenario::{Cell, GuestType, Hypervisor, Measure, Scenario};

/// Of the machines that QEMU emulates: the largest of them.
const MEMORY_MIB: u64 = 2_300;

/// One cell, and what stands against it.
#[derive(Debug, Clone)]
pub struct Planned {
    /// What is run.
    pub cell: Cell,
    /// Why it cannot be, if it cannot.
    pub refusal: Option<&'static str>,
    /// About how long it takes.
    pub takes: Duration,
}

/// All cells, or those that are named.
pub fn cells(scenario: &Scenario, only: &[String]) -> Vec<Planned> {
    let cells = scenario.cells().into_iter();
    let chosen = cells.filter(|cell| only.is_empty() || only.contains(&cell.name()));
    chosen
        .map(|cell| Planned {
            refusal: emulation::refusal(&cell, &scenario.measure)
                .or(too_long(&cell, &scenario.measure)),
            takes: takes(&cell, &scenario.measure),
            cell,
        })
        .collect()
}

/// How many cells run side by side: each keeps a CPU busy.
pub fn jobs() -> usize {
    let cpus = available_parallelism().map_or(1, NonZero::get);
    let memory = free_mib().map_or(cpus, |mib| (mib / MEMORY_MIB) as usize);
    cpus.min(memory).max(1)
}

/// `MemAvailable` of /proc/meminfo (proc(5)).
fn free_mib() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib / 1024)
}

/// A machine that takes longer counts as hung.
fn too_long(cell: &Cell, measure: &Measure) -> Option<&'static str> {
    let most = match cell.hypervisor {
        Hypervisor::Bare | Hypervisor::Microvm => 200,
        Hypervisor::Kvm => 400,
        Hypervisor::Xen | Hypervisor::Dom0 => 500,
    };
    let is_too_long = takes(cell, measure).as_secs() > most;
    is_too_long.then_some(
        "it takes longer than an emulated machine is let run: lower `duration` or `repeat`",
    )
}

/// How long all that can be run takes together, about.
pub fn estimate(planned: &[Planned]) -> Duration {
    let to_run = planned.iter().filter(|it| it.refusal.is_none());
    to_run.map(|it| it.takes).sum::<Duration>() / u32::try_from(jobs()).unwrap_or(1)
}

/// As the machines of docs/labs.md took; an estimate, and said to be one.
fn takes(cell: &Cell, measure: &Measure) -> Duration {
    let boot_s = match (cell.hypervisor, cell.guest_type) {
        (Hypervisor::Bare | Hypervisor::Microvm, _) => 15,
        (Hypervisor::Kvm, _) => 35,
        (Hypervisor::Xen, Some(GuestType::Hvm)) => 110,
        (Hypervisor::Xen | Hypervisor::Dom0, _) => 60,
    };
    // A second of a guest whose host records every exit, and the way out of what it recorded.
    let a_second_s = match cell.hypervisor {
        Hypervisor::Kvm => 250,
        Hypervisor::Bare | Hypervisor::Xen | Hypervisor::Dom0 => 120,
        // Three exits a 10 us, and each recorded.
        Hypervisor::Microvm => 400,
    };
    let measured_s = measure.duration.ns() * u64::from(measure.repeat) * a_second_s / 1_000_000_000;
    Duration::from_secs(boot_s + measured_s)
}

/// As `vmnoise-lab plan` prints it.
pub fn text(scenario: &Scenario, planned: &[Planned]) -> String {
    let mut text = format!("{}\n{}\n\n", scenario.title, scenario.source);
    let mut packages = BTreeSet::new();
    for Planned {
        cell,
        refusal,
        takes,
    } in planned
    {
        let name = cell.name();
        match refusal {
            Some(why) => _ = writeln!(text, "  {name:32} not run: {why}"),
            None => {
                _ = writeln!(text, "  {name:32} about {} s", takes.as_secs());
                packages.extend(emulation::parts(cell).into_iter().map(Part::package));
            }
        }
    }
    let packages: Vec<&str> = packages.into_iter().collect();
    _ = writeln!(
        text,
        "\nTogether about {} min, {} at a time. QEMU (package qemu-system-x86) has to be there. Packages of Debian, \
         which are downloaded and unpacked under target/lab and not installed: {}. Nothing else of this machine \
         is changed.",
        estimate(planned).as_secs().div_ceil(60),
        jobs(),
        packages.join(", ")
    );
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

    use super::*;
    use crate::library;

    fn scenario(name: &str) -> Scenario {
        Scenario::parse(library::text(name).unwrap()).unwrap()
    }

    #[test]
    fn a_cell_says_what_it_needs() {
        let scenario = scenario("kvm-and-xen");
        let text = |cell: &str| text(&scenario, &cells(&scenario, &[cell.to_owned()]));
        let kvm = text("kvm-rt-ordinary");
        for package in ["linux-image-rt-amd64", "linux-image-cloud-amd64"] {
            assert!(kvm.contains(package), "{kvm}");
        }
        assert!(!kvm.contains("xen") && !kvm.contains("kvm-rt-rt"), "{kvm}");
        let xen = text("xen-ordinary-rt");
        for package in [
            "linux-image-amd64",
            "linux-image-rt-amd64",
            "xen-system-amd64",
            "qemu-system-xen",
        ] {
            assert!(xen.contains(package), "{xen}");
        }
    }

    #[test]
    fn what_cannot_be_had_is_said_before_time_is_spent() {
        let scenario = scenario("isolation");
        let planned = cells(&scenario, &[]);
        let refused: Vec<bool> = planned.iter().map(|it| it.refusal.is_some()).collect();
        assert_eq!(refused, [false, true, true, true]);
        assert!(text(&scenario, &planned).contains("needs a real host"));
    }
}
