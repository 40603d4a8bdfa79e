//! A cell in emulation: its kernels boot in QEMU on any machine, in virtual time, where the same seed gives
//! the same run.

mod bare;
mod kvm;
mod length;
mod printed;
mod xen;

use anyhow::Result;

use crate::measuring::Brought;
use crate::scenario::{Cell, GuestType, Hypervisor, Kernel, Load, Measure, Tuning, Workload};

pub use length::{jobs, takes};

/// Boots a cell and measures it as often as is asked.
///
/// # Errors
/// If the machine cannot be had or does not come to its end, with how far it came and the end of its
/// console.
pub fn run(cell: &Cell, measure: &Measure, seed: u64) -> Result<Brought> {
    match cell.hypervisor {
        Hypervisor::Bare => bare::run(cell, measure, seed),
        Hypervisor::Kvm => kvm::run(cell, measure, seed),
        Hypervisor::Xen => xen::run(cell, measure, seed),
    }
}

/// What one instruction of a cell takes, nanoseconds: cells that differ in it cannot be compared.
pub fn ns_an_instruction(cell: &Cell) -> u32 {
    match cell.guest_type {
        Some(GuestType::Pv | GuestType::Pvh) => 4,
        Some(GuestType::Hvm) | None => 1,
    }
}

/// Why this cell cannot be had in emulation, if it cannot.
pub fn refusal(cell: &Cell, measure: &Measure) -> Option<&'static str> {
    if measure.workload == Workload::Cyclictest {
        return Some("in emulation `timerlat` measures, which also records why");
    }
    if cell.load == Load::StressNg {
        return Some(
            "emulated machines have no stress-ng: `system-calls` is the load that they have",
        );
    }
    let is_pv = cell.guest_type == Some(GuestType::Pv) && cell.guest_kernel == Some(Kernel::Rt);
    if cell.hypervisor == Hypervisor::Xen && (cell.host_kernel == Kernel::Rt || is_pv) {
        return Some(
            "Debian's PREEMPT_RT kernel 6.1 stops in QEMU before its first process, as Dom0 and as PV: needs a real host",
        );
    }
    match (cell.hypervisor, cell.tuning) {
        (_, Tuning::HostIsolated | Tuning::GuestIsolated | Tuning::BothIsolated) => Some(
            "an emulated machine has one CPU, and none can be isolated: this needs a real host",
        ),
        (Hypervisor::Kvm | Hypervisor::Bare, Tuning::TimerSlop | Tuning::TscEmulated) => {
            Some("it is a setting of Xen, which this cell is without")
        }
        (Hypervisor::Xen, Tuning::VmmAtFifo99) if cell.guest_type != Some(GuestType::Hvm) => {
            Some("a guest that is PV or PVH has no QEMU")
        }
        _ => length::too_long(cell, measure),
    }
}
