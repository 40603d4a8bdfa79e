//! What this machine is.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result};
use vmnoise_labs::placed;

use crate::machine;
use crate::scenario::Kernel;

/// Where the device of KVM is.
const KVM: &str = "/dev/kvm";

/// A machine that runs cells itself.
#[derive(Debug, Clone)]
pub struct Host {
    /// Of which kind its kernel is.
    pub kernel: Kernel,
    /// `uname -r`.
    pub release: String,
    /// The model of its CPU.
    pub model: String,
    /// The CPU that is measured, or has the vCPU.
    pub cpu: u32,
    /// Whether what runs here may use another one.
    pub has_another_cpu: bool,
    /// Whether that one is isolated.
    pub is_isolated: bool,
    /// What it is without, and what to do about it, if no cell can be run.
    pub lack: Option<String>,
}

impl Host {
    /// This one, as a host of KVM.
    ///
    /// # Errors
    /// If its kernel tells nothing of itself.
    pub fn read() -> Result<Host> {
        Host::with(lack())
    }

    /// This one, which lacks this.
    pub(super) fn with(lack: Option<String>) -> Result<Host> {
        let read = |path: &str| fs::read_to_string(path).context(path.to_owned());
        let isolated = read("/sys/devices/system/cpu/isolated").unwrap_or_default();
        let isolated = last_of(&isolated);
        let allowed = placed::allowed()?;
        let last = *allowed.last().context("this machine has no CPU")?;
        let cpu = isolated.unwrap_or(last);
        Ok(Host {
            kernel: kind(&read("/proc/version")?),
            release: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            model: machine::cpu_model(&read("/proc/cpuinfo")?),
            cpu,
            has_another_cpu: allowed.iter().any(|it| *it != cpu),
            is_isolated: isolated.is_some(),
            lack,
        })
    }

    /// Takes the calling thread, and all that it starts, off the CPU that is measured.
    pub(super) fn leave_measured_cpu(&self) -> Result<()> {
        placed::leave(self.cpu)
    }
}

/// By what its version says (init/version.c): `#1 SMP PREEMPT_RT Debian 6.1.90-1`.
fn kind(version: &str) -> Kernel {
    match version.contains("PREEMPT_RT") {
        true => Kernel::Rt,
        false => Kernel::Ordinary,
    }
}

/// The last CPU of a list such as `1,3-5`.
fn last_of(list: &str) -> Option<u32> {
    list.trim().rsplit([',', '-']).next()?.parse().ok()
}

/// Whether this kernel runs on Xen.
pub(super) fn is_on_xen() -> bool {
    let hypervisor = fs::read_to_string("/sys/hypervisor/type");
    hypervisor.is_ok_and(|it| it.trim() == "xen")
}

/// Of a process that is looked at by itself: whether it has the rights of root.
pub(super) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|it| it.uid() == 0)
}

fn lack() -> Option<String> {
    let kvm = fs::File::options().read(true).write(true).open(KVM);
    if is_on_xen() {
        Some(
            "this kernel runs on Xen, where it has no KVM: boot it without, or run cells of Xen (`--accel xen`)"
                .to_owned(),
        )
    } else if !is_root() {
        Some("the host's exits are traced, and vCPUs get SCHED_FIFO: run it as root".to_owned())
    } else if !Path::new(KVM).exists() {
        Some(format!(
            "there is no {KVM}: load kvm_intel or kvm_amd, and switch virtualization on in the firmware"
        ))
    } else {
        kvm.err()
            .map(|error| format!("{KVM} cannot be opened ({error}): see its owner and who uses it"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_says_whether_it_is_real_time() {
        let rt = "Linux version 6.1.0-1-rt-amd64 (gcc-12) #1 SMP PREEMPT_RT Debian 6.1.90-1";
        let ordinary = "Linux version 6.1.0-1-amd64 (gcc-12) #1 SMP PREEMPT_DYNAMIC Debian";
        assert_eq!([kind(rt), kind(ordinary)], [Kernel::Rt, Kernel::Ordinary]);
    }

    #[test]
    fn the_last_of_a_list_of_cpus() {
        let lists = ["\n", "3\n", "1,3-5\n", "1-2,7\n"];
        assert_eq!(lists.map(last_of), [None, Some(3), Some(5), Some(7)]);
    }
}
