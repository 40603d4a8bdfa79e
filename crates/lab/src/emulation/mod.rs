//! Cells in emulation: the kernels boot in QEMU on any machine, in virtual time, and the same seed
//! gives the same run.

mod bare;
mod exercise;
mod kvm;
mod length;
mod refusal;
mod xen;

use anyhow::Result;
use vmnoise_labs::bed::{self, Part};

use crate::measuring::{self, Brought, Job, image};
use crate::scenario::{Cell, GuestType, Hypervisor, Kernel, Workload};

pub use length::{jobs, takes};
pub use refusal::refusal;

/// Boots a cell and makes all its repetitions, unless the user ends the run earlier.
///
/// # Errors
/// If the machine cannot be started or does not finish; the error has the last step and the end of
/// the console.
pub fn run(job: Job<'_>) -> Result<Brought> {
    match job.cell.hypervisor {
        Hypervisor::Microvm if job.cell.workload == Workload::Exercise => exercise::run(job),
        Hypervisor::Bare | Hypervisor::Microvm => bare::run(job),
        Hypervisor::Kvm => kvm::run(job),
        Hypervisor::Xen | Hypervisor::Dom0 => xen::run(job),
    }
}

/// Returns the length of an instruction in a cell, in nanoseconds. Cells with different lengths
/// cannot be compared.
pub fn ns_an_instruction(cell: &Cell) -> u32 {
    match cell.guest_type {
        Some(GuestType::Pv | GuestType::Pvh) => 4,
        Some(GuestType::Hvm) | None => 1,
    }
}

/// Returns the parts of the cell's machine.
pub fn parts(cell: &Cell) -> Vec<Part> {
    let is_xen = matches!(cell.hypervisor, Hypervisor::Xen | Hypervisor::Dom0);
    let of_host = match is_xen {
        true => bed::Kernel::Plain,
        false => bed::Kernel::Cloud,
    };
    let mut parts = vec![
        Part::Emulator,
        Part::Kernel(image(cell.host_kernel, of_host)),
    ];
    // Xen is always booted with a guest, even if Dom0 is measured.
    let guest = cell.guest_kernel.or(is_xen.then_some(Kernel::Ordinary));
    parts.extend(guest.map(|kernel| Part::Kernel(image(kernel, bed::Kernel::Cloud))));
    parts.extend(is_xen.then_some(Part::Xen));
    let is_hvm = cell.guest_type == Some(GuestType::Hvm);
    parts.extend(is_hvm.then_some(Part::DeviceModel));
    parts.extend(measuring::packaged(cell).into_iter().map(Part::Program));
    parts
}
