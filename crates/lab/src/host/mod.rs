//! A cell on this machine's own kernel, with its own KVM or Xen, in real time. Cells of another kind of kernel wait
//! until it is booted.

mod again;
mod at_work;
mod bare;
mod dom0;
mod kvm;
mod load;
mod machine;
mod recorder;
pub mod refusal;
mod running_xen;
mod said;
mod waiting;
mod xen;

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::measuring::{Brought, Job};
use crate::scenario::{Cell, GuestType, Hypervisor, Measure};

pub use dom0::Dom0;
pub use machine::Host;

/// Measures a cell that a host of KVM does not refuse as often as is asked, unless it is asked to end before.
///
/// # Errors
/// If the cell cannot be had or does not come to its end, with the end of its console.
pub fn run_on_kvm(host: &Host, job: Job<'_>) -> Result<Brought> {
    match job.cell.guest_kernel {
        Some(_) => beside_the_measured_cpu(host, || kvm::run(host, job)),
        None => bare::run(host, job, "host"),
    }
}

/// Likewise, in a Dom0.
///
/// # Errors
/// Likewise, or if Xen is no longer one for the cell.
pub fn run_on_xen(dom0: &Dom0, job: Job<'_>) -> Result<Brought> {
    let host = &dom0.host;
    if job.cell.guest_kernel.is_none() {
        return bare::run(host, job, xen::SIDE);
    }
    // Cells before this one may have taken an hour.
    let now = dom0.now()?;
    if let Some(why) = running_xen::refusal(&now, job.cell) {
        bail!("since the run began this has changed: {why}");
    }
    let cpu = now.xen.and_then(|xen| xen.guest_cpu());
    let cpu = cpu.context("a guest without a CPU")?;
    beside_the_measured_cpu(host, || xen::run(host, cpu, job))
}

/// In a thread of its own, which stays off the CPU that is measured or loaded, as all that it starts.
fn beside_the_measured_cpu(
    host: &Host,
    run: impl FnOnce() -> Result<Brought> + Send,
) -> Result<Brought> {
    thread::scope(|scope| {
        let cell = scope.spawn(|| host.leave_measured_cpu().and_then(|()| run()));
        cell.join().unwrap_or_else(|_| bail!("a thread panicked"))
    })
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
