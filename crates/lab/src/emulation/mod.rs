//! Runs cells in emulation. The kernels boot in QEMU, on any machine and in virtual time. The same
//! seed gives the same run.

mod bare;
mod exercise;
mod kvm;
mod length;
mod refusal;
mod xen;

use anyhow::Result;
use vmnoise_testbed::bed::{self, BedPart};

use crate::measuring::{self, Brought, Job, image};
use crate::scenario::{Cell, CellKernel, CellWorkload, GuestType, Hypervisor};

pub use length::{jobs, takes};
pub use refusal::refusal;

/// Boots the machines of a cell and makes all its repetitions. The user may end the run earlier.
///
/// # Errors
/// If a machine cannot be started, or does not finish. The error contains the last step that
/// finished, and the end of the console.
pub fn run(job: Job<'_>) -> Result<Brought> {
    match job.cell.hypervisor {
        Hypervisor::Microvm if job.cell.workload == CellWorkload::Exercise => exercise::run(job),
        Hypervisor::Bare | Hypervisor::Microvm => bare::run(job),
        Hypervisor::Kvm => kvm::run(job),
        Hypervisor::Xen | Hypervisor::Dom0 => xen::run(job),
    }
}

/// Returns the virtual time of one instruction in a cell, in nanoseconds. Cells with different
/// values cannot be compared.
pub fn ns_an_instruction(cell: &Cell) -> u32 {
    match cell.guest_type {
        Some(GuestType::Pv | GuestType::Pvh) => 4,
        Some(GuestType::Hvm) | None => 1,
    }
}

/// Returns the kernels and programs that the cell's machines need.
pub fn parts(cell: &Cell) -> Vec<BedPart> {
    let is_xen = matches!(cell.hypervisor, Hypervisor::Xen | Hypervisor::Dom0);
    let of_host = match is_xen {
        true => bed::DebianKernel::Plain,
        false => bed::DebianKernel::Cloud,
    };
    let mut parts = vec![
        BedPart::Emulator,
        BedPart::Kernel(image(cell.host_kernel, of_host)),
    ];
    // Xen is always booted with a guest, even for cells that measure Dom0.
    let guest = cell.guest_kernel.or(is_xen.then_some(CellKernel::Ordinary));
    parts.extend(guest.map(|kernel| BedPart::Kernel(image(kernel, bed::DebianKernel::Cloud))));
    parts.extend(is_xen.then_some(BedPart::Xen));
    let is_hvm = cell.guest_type == Some(GuestType::Hvm);
    parts.extend(is_hvm.then_some(BedPart::DeviceModel));
    parts.extend(measuring::packaged(cell).into_iter().map(BedPart::Program));
    parts
}
