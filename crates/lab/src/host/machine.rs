//! This machine as a host for cells.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result};
use vmnoise_testbed::placed;

use crate::machine;
use crate::scenario::CellKernel;

/// Device file of KVM.
const KVM: &str = "/dev/kvm";

/// Machine that runs cells without emulation.
#[derive(Debug, Clone)]
pub struct HostMachine {
    /// Kind of the running kernel.
    pub kernel: CellKernel,
    /// Release of the running kernel (`uname -r`).
    pub release: String,
    /// Model of the machine's CPUs.
    pub model: String,
    /// Number of the CPU that is measured, or that runs the vCPU.
    pub cpu: u32,
    /// Whether vmnoise's other programs may use a second CPU.
    pub has_another_cpu: bool,
    /// Whether the measured CPU is isolated.
    pub is_isolated: bool,
    /// Missing requirement and its remedy, if no cell can run; otherwise `None`.
    pub lack: Option<String>,
}

impl HostMachine {
    /// Reads the properties of this machine as a host of KVM.
    ///
    /// # Errors
    /// If the kernel's files cannot be read.
    pub fn read() -> Result<HostMachine> {
        HostMachine::with(lack())
    }

    /// Reads the properties of this machine. `lack` is the missing requirement.
    pub(super) fn with(lack: Option<String>) -> Result<HostMachine> {
        let read = |path: &str| fs::read_to_string(path).context(path.to_owned());
        let isolated = read("/sys/devices/system/cpu/isolated").unwrap_or_default();
        let isolated = last_of(&isolated);
        let allowed = placed::allowed()?;
        let last = *allowed.last().context("this machine has no CPU")?;
        let cpu = isolated.unwrap_or(last);
        Ok(HostMachine {
            kernel: kind(&read("/proc/version")?),
            release: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            model: machine::cpu_model(&read("/proc/cpuinfo")?),
            cpu,
            has_another_cpu: allowed.iter().any(|it| *it != cpu),
            is_isolated: isolated.is_some(),
            lack,
        })
    }

    /// Moves the calling thread off the measured CPU. Programs that the thread starts also avoid
    /// this CPU.
    pub(super) fn leave_measured_cpu(&self) -> Result<()> {
        placed::leave(self.cpu)
    }
}

/// Returns the kind of a kernel. `version` is the kernel's version (init/version.c): `#1 SMP
/// PREEMPT_RT Debian 6.1.90-1`.
fn kind(version: &str) -> CellKernel {
    match version.contains("PREEMPT_RT") {
        true => CellKernel::Rt,
        false => CellKernel::Ordinary,
    }
}

/// Returns the last CPU of a list such as `1,3-5`; `None` if the list is empty.
fn last_of(list: &str) -> Option<u32> {
    list.trim().rsplit([',', '-']).next()?.parse().ok()
}

/// Returns whether this kernel runs on Xen.
pub(super) fn is_on_xen() -> bool {
    let hypervisor = fs::read_to_string("/sys/hypervisor/type");
    hypervisor.is_ok_and(|it| it.trim() == "xen")
}

/// Returns whether this process runs as root.
pub(super) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|it| it.uid() == 0)
}

fn lack() -> Option<String> {
    let kvm = fs::File::options().read(true).write(true).open(KVM);
    if is_on_xen() {
        Some(
            "this kernel runs on Xen, so it has no KVM: boot it without Xen, or run cells of Xen (`--accel xen`)"
                .to_owned(),
        )
    } else if !is_root() {
        Some("tracing exits and setting SCHED_FIFO need root: run it as root".to_owned())
    } else if !Path::new(KVM).exists() {
        Some(format!(
            "there is no {KVM}: load kvm_intel or kvm_amd, and switch virtualization on in the firmware"
        ))
    } else {
        kvm.err()
            .map(|error| format!("{KVM} cannot be opened ({error}): see its owner and its users"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_says_whether_it_is_real_time() {
        let rt = "Linux version 6.1.0-1-rt-amd64 (gcc-12) #1 SMP PREEMPT_RT Debian 6.1.90-1";
        let ordinary = "Linux version 6.1.0-1-amd64 (gcc-12) #1 SMP PREEMPT_DYNAMIC Debian";
        assert_eq!(
            [kind(rt), kind(ordinary)],
            [CellKernel::Rt, CellKernel::Ordinary]
        );
    }

    #[test]
    fn the_last_of_a_list_of_cpus() {
        let lists = ["\n", "3\n", "1,3-5\n", "1-2,7\n"];
        assert_eq!(lists.map(last_of), [None, Some(3), Some(5), Some(7)]);
    }
}
