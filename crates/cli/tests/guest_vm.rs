//! VMs of vmnoise itself, for tests of `vmnoise exits` and of its tracer.

use std::process::{Command, Stdio};

use vmnoise_host::{Host, VmProcess};
use vmnoise_testkit::{TestProcess, wait_for};

/// Starts a VM that makes this exit on this CPU all the time.
pub fn start(exercise: &str, duration: &str, cpu: u32) -> TestProcess {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
    command
        .args(["microvm", "--exercise", exercise, "-d", duration, "-c"])
        .arg(cpu.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    TestProcess::start(&mut command)
}

/// Returns the VM of this process as soon as it has a vCPU.
pub fn found(process: &TestProcess) -> VmProcess {
    wait_for("a VM with a vCPU", || {
        let mut vms = Host::here().vms().into_iter();
        vms.find(|vm| vm.pid == process.id() && !vm.vcpus.is_empty())
    })
}
