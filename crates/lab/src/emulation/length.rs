//! Estimates how long emulated cells take, and how many can run in parallel.

use std::num::NonZero;
use std::thread::available_parallelism;
use std::time::Duration;

use crate::scenario::{Cell, GuestType, Hypervisor, Measure};

/// Memory that QEMU needs for the largest emulated machine, in MiB.
const MEMORY_MIB: u64 = 2_300;

/// Returns the number of cells that run in parallel. Each cell needs one CPU, and memory.
pub fn jobs() -> usize {
    let cpus = available_parallelism().map_or(1, NonZero::get);
    let memory = free_mib().map_or(cpus, |mib| (mib / MEMORY_MIB) as usize);
    cpus.min(memory).max(1)
}

/// Returns the available memory in MiB: `MemAvailable` in /proc/meminfo (proc(5)).
fn free_mib() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib / 1024)
}

/// Returns a reason if this cell would take too long; otherwise `None`. A machine that runs longer
/// than its time limit would be stopped as hung.
pub(super) fn too_long(cell: &Cell, measure: &Measure) -> Option<&'static str> {
    let most = match cell.hypervisor {
        Hypervisor::Bare | Hypervisor::Microvm => 200,
        Hypervisor::Kvm => 400,
        Hypervisor::Xen | Hypervisor::Dom0 => 500,
    };
    let is_too_long = takes(cell, measure).as_secs() > most;
    is_too_long
        .then_some("it exceeds the time limit of an emulated machine: lower `duration` or `repeat`")
}

/// Estimates the time for a cell from the times in docs/labs.md.
pub fn takes(cell: &Cell, measure: &Measure) -> Duration {
    let boot_s = match (cell.hypervisor, cell.guest_type) {
        (Hypervisor::Bare | Hypervisor::Microvm, _) => 15,
        (Hypervisor::Kvm, _) => 35,
        (Hypervisor::Xen, Some(GuestType::Hvm)) => 110,
        (Hypervisor::Xen | Hypervisor::Dom0, _) => 60,
    };
    // Real time, in seconds, for each second that a guest measures. It includes recording every
    // exit, and copying the recording.
    let a_second_s = match cell.hypervisor {
        Hypervisor::Kvm => 250,
        Hypervisor::Bare | Hypervisor::Xen | Hypervisor::Dom0 => 120,
        // The guest makes three exits every 10 us, and each of them is recorded.
        Hypervisor::Microvm => 400,
    };
    let measured_s = measure.duration.ns() * u64::from(measure.repeat) * a_second_s / 1_000_000_000;
    Duration::from_secs(boot_s + measured_s)
}
