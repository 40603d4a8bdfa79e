//! Reader of the steal clock for a polling thread. It needs one system call and no allocation.

use std::{
    os::fd::{AsRawFd, OwnedFd},
    sync::Arc,
};

use libbpf_rs::libbpf_sys;

use crate::mapped::MappedCpus;

/// Reads the steal clock of one of this machine's CPUs, for the thread that runs on this CPU. The
/// reader stays usable after its [`crate::Tracer`] is dropped.
#[derive(Debug)]
pub struct OwnStealReader {
    program: OwnedFd,
    cpus: Arc<MappedCpus>,
    cpu: u32,
    /// Whether the clock has a version. A version counts the returns of the vCPU to its CPU.
    reloads: bool,
}

impl OwnStealReader {
    pub(crate) fn new(
        program: OwnedFd,
        cpus: Arc<MappedCpus>,
        cpu: u32,
        reloads: bool,
    ) -> OwnStealReader {
        OwnStealReader {
            program,
            cpus,
            cpu,
            reloads,
        }
    }

    /// Returns the steal time of the CPU since boot in ns, and the version of this reading. Returns
    /// `None` if the calling thread is on another CPU. The version grows by 2 with each return of
    /// the vCPU to its CPU, with or without steal time (KVM's MSR_KVM_STEAL_TIME,
    /// Documentation/virt/kvm/x86/msr.rst). Xen's clock has no version.
    pub fn read(&mut self) -> Option<(u64, Option<u32>)> {
        let mut run = libbpf_sys::bpf_test_run_opts {
            sz: size_of::<libbpf_sys::bpf_test_run_opts>() as u64,
            ..Default::default()
        };
        // SAFETY: `run` is a plain structure of the size that it states, without buffers. So the
        // kernel follows no pointer. The program takes no context.
        let result =
            unsafe { libbpf_sys::bpf_prog_test_run_opts(self.program.as_raw_fd(), &raw mut run) };
        let here = result == 0 && run.retval == self.cpu;
        let (steal_ns, version) = here.then(|| self.cpus.own_steal(self.cpu)).flatten()?;
        Some((steal_ns, self.reloads.then_some(version)))
    }
}
