//! Runs cells in real time on this machine's running kernel, with its own KVM or Xen. Cells with
//! another kind of kernel need a reboot.

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
pub use machine::HostMachine;

/// Makes all repetitions of a cell on a host of KVM. The user may end the run earlier.
///
/// # Errors
/// If the cell cannot be started or does not finish. The error contains the end of the console.
pub fn run_on_kvm(host: &HostMachine, job: Job<'_>) -> Result<Brought> {
    match job.cell.guest_kernel {
        Some(_) => beside_the_measured_cpu(host, || kvm::run(host, job)),
        None => bare::run(host, job, "host"),
    }
}

/// Makes all repetitions of a cell in a Dom0. The user may end the run earlier.
///
/// # Errors
/// As for [`run_on_kvm`], or if the running Xen no longer fits the cell.
pub fn run_on_xen(dom0: &Dom0, job: Job<'_>) -> Result<Brought> {
    let host = &dom0.host;
    if job.cell.guest_kernel.is_none() {
        return bare::run(host, job, xen::SIDE);
    }
    // Earlier cells may have taken an hour, and the state of Xen may have changed since.
    let now = dom0.now()?;
    if let Some(why) = running_xen::refusal(&now, job.cell) {
        bail!("since the run began this has changed: {why}");
    }
    let cpu = now.xen.and_then(|xen| xen.guest_cpu());
    let cpu = cpu.context("a guest without a CPU")?;
    beside_the_measured_cpu(host, || xen::run(host, cpu, job))
}

/// Calls `run` on a new thread. This thread and all programs that it starts stay off the measured
/// CPU.
fn beside_the_measured_cpu(
    host: &HostMachine,
    run: impl FnOnce() -> Result<Brought> + Send,
) -> Result<Brought> {
    thread::scope(|scope| {
        let cell = scope.spawn(|| host.leave_measured_cpu().and_then(|()| run()));
        cell.join().unwrap_or_else(|_| bail!("a thread panicked"))
    })
}

/// Estimates the time for a cell: for the boot and the measurement.
pub fn takes(cell: &Cell, measure: &Measure) -> Duration {
    let boot_s = match (cell.hypervisor, cell.guest_type) {
        // This includes the time for the firmware, and for QEMU to decompress the kernel.
        (_, Some(GuestType::Hvm)) => 30,
        (Hypervisor::Kvm | Hypervisor::Xen, _) => 15,
        (Hypervisor::Bare | Hypervisor::Microvm | Hypervisor::Dom0, _) => 2,
    };
    Duration::from_secs(boot_s) + Duration::from_nanos(measure.duration.ns()) * measure.repeat
}
