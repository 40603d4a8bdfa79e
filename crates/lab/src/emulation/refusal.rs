//! Reasons why a cell cannot run in emulation: limits of the emulated machines and of the measuring
//! programs.

use super::length;
use crate::measuring;
use crate::scenario::{
    Cell, CellKernel, CellWorkload, GuestType, Hypervisor, Load, Measure, Tuning,
};

/// Returns the reason why this cell cannot run in emulation; `None` if it can.
pub fn refusal(cell: &Cell, measure: &Measure) -> Option<&'static str> {
    of_workload(cell, measure)
        .or_else(|| of_kernels(cell))
        .or_else(|| of_load(cell))
        .or_else(|| of_tuning(cell))
        .or_else(|| length::too_long(cell, measure))
}

/// Shortest measurement of a guest, in nanoseconds. Every 5 ms, a program checks whether the guest
/// runs. The program may miss a shorter measurement.
const SHORTEST_NS: u64 = 20_000_000;

fn of_workload(cell: &Cell, measure: &Measure) -> Option<&'static str> {
    let is_microvm = cell.hypervisor == Hypervisor::Microvm;
    match cell.workload {
        CellWorkload::Timerlat | CellWorkload::Cyclictest if is_microvm => {
            Some("vmnoise's own guest has no timer: `osnoise` and `exercise` run in it")
        }
        CellWorkload::Exercise if !is_microvm => {
            Some("only vmnoise's own guest exits on purpose: set `hypervisor = \"microvm\"`")
        }
        CellWorkload::Exercise if measure.duration.ns() < SHORTEST_NS => {
            Some("a guest that ends within 20 ms may not be seen: raise `duration`")
        }
        CellWorkload::Timerlat
        | CellWorkload::Cyclictest
        | CellWorkload::Exercise
        | CellWorkload::Osnoise => measuring::refusal(cell, measure),
    }
}

fn of_kernels(cell: &Cell) -> Option<&'static str> {
    let is_xen = matches!(cell.hypervisor, Hypervisor::Xen | Hypervisor::Dom0);
    let is_pv = cell.guest_type == Some(GuestType::Pv) && cell.guest_kernel == Some(CellKernel::Rt);
    (is_xen && (cell.host_kernel == CellKernel::Rt || is_pv)).then_some(
        "Debian's PREEMPT_RT kernel 6.1 stops in QEMU before its first process, as Dom0 and as PV: needs a real host",
    )
}

fn of_load(cell: &Cell) -> Option<&'static str> {
    let is_xen = matches!(cell.hypervisor, Hypervisor::Xen | Hypervisor::Dom0);
    match cell.load {
        Load::Network if is_xen => {
            Some("an emulated Dom0 has no network: use a cell of `bare` or `kvm`")
        }
        Load::Network if cell.workload == CellWorkload::Exercise => {
            Some("exits on purpose are not measured while packets arrive: use another load")
        }
        Load::NetworkElsewhere => Some(
            "an emulated machine has one CPU, and packets cannot be received by another: this needs a real host",
        ),
        Load::Idle | Load::SystemCalls | Load::Bursts | Load::Network | Load::StressNg => None,
    }
}

fn of_tuning(cell: &Cell) -> Option<&'static str> {
    match (cell.hypervisor, cell.tuning) {
        (_, Tuning::HostIsolated | Tuning::GuestIsolated | Tuning::BothIsolated) => Some(
            "an emulated machine has one CPU, and none can be isolated: this needs a real host",
        ),
        (_, Tuning::NullScheduler) => Some(
            "Debian builds Xen without the null scheduler (CONFIG_SCHED_NULL): needs another Xen",
        ),
        (
            Hypervisor::Kvm | Hypervisor::Bare | Hypervisor::Microvm,
            Tuning::CreditScheduler | Tuning::TscEmulated,
        ) => Some("this is a setting of Xen, and this cell has no Xen"),
        (Hypervisor::Dom0, Tuning::TscEmulated) => {
            Some("this is a setting for guests of Xen, not for Dom0")
        }
        (Hypervisor::Xen, Tuning::VmmAtFifo99) if cell.guest_type != Some(GuestType::Hvm) => {
            Some("a guest that is PV or PVH has no QEMU")
        }
        _ => None,
    }
}
