//! A cell on this machine's own kernel, with its own KVM or Xen, in real time. Cells of another kind of kernel wait
//! until it is booted.

mod bare;
mod dom0;
mod kvm;
mod load;
mod machine;
mod recorder;
pub mod refusal;
mod said;
mod waiting;
mod xen;

use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::measuring::{Brought, Job};
use crate::scenario::{Cell, GuestType, Hypervisor, Measure};

pub use dom0::Dom0;
pub use machine::Host;

/// Measures a cell on a host of KVM as often as is asked, unless it is asked to end before.
///
/// # Errors
/// If the cell cannot be had or does not come to its end, with the end of its console.
pub fn run_on_kvm(host: &Host, job: Job<'_>) -> Result<Brought> {
    match job.cell.hypervisor {
        Hypervisor::Bare => bare::run(host, job, "host"),
        Hypervisor::Kvm => beside_the_measured_cpu(host, || kvm::run(host, job)),
        Hypervisor::Microvm | Hypervisor::Xen | Hypervisor::Dom0 => not_here(job.cell),
    }
}

/// Likewise, in a Dom0.
///
/// # Errors
/// Likewise.
pub fn run_on_xen(dom0: &Dom0, job: Job<'_>) -> Result<Brought> {
    let host = &dom0.host;
    match job.cell.hypervisor {
        Hypervisor::Dom0 => bare::run(host, job, xen::SIDE),
        Hypervisor::Xen => beside_the_measured_cpu(host, || xen::run(host, job)),
        Hypervisor::Bare | Hypervisor::Kvm | Hypervisor::Microvm => not_here(job.cell),
    }
}

/// In a thread of its own, which stays off the CPU of the vCPU, as all that it starts.
fn beside_the_measured_cpu(
    host: &Host,
    run: impl FnOnce() -> Result<Brought> + Send,
) -> Result<Brought> {
    thread::scope(|scope| {
        let cell = scope.spawn(|| host.leave_measured_cpu().and_then(|()| run()));
        cell.join().unwrap_or_else(|_| bail!("a thread panicked"))
    })
}

/// Such a cell is refused before.
fn not_here(cell: &Cell) -> Result<Brought> {
    bail!("{} cannot be run here: see `vmnoise-lab plan`", cell.name())
}

/// About how long it takes: a boot, and what is measured.
pub fn takes(cell: &Cell, measure: &Measure) -> Duration {
    let boot_s = match (cell.hypervisor, cell.guest_type) {
        // Its firmware, and the kernel that QEMU unpacks.
        (_, Some(GuestType::Hvm)) => 30,
        (Hypervisor::Kvm | Hypervisor::Xen, _) => 15,
        (Hypervisor::Bare | Hypervisor::Microvm | Hypervisor::Dom0, _) => 2,
    };
    Duration::from_secs(boot_s) + Duration::from_nanos(measure.duration.ns()) * measure.repeat
}
