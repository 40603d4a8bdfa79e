//! Finds out which facilities this machine's KVM offers to the microVM, before a measurement.

use std::sync::atomic::Ordering;

use super::guest::GuestCommand;
use super::stats::EXITS;
use super::vcpu::GuestVcpu;
use super::vm::{MicrovmMemory, open_kvm};
use super::{Error, GuestClock};
use crate::thread;

/// Facilities of KVM, as a trial VM on one CPU found them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvmOffer {
    /// Result of `KVM_GET_API_VERSION`; 12 on every kernel since 2.6.22.
    pub api_version: i32,
    /// Whether KVM accepted `MSR_KVM_STEAL_TIME`. If so, the guest has a steal clock.
    pub steal_clock: bool,
    /// Whether KVM accepted `KVM_VCPU_TSC_OFFSET` (since Linux 5.16).
    pub tsc_offset: bool,
    /// Relation between the trial guest's clock and the host's clock.
    pub clock: GuestClock,
    /// Whether KVM counts the exits of each vCPU (binary statistics, since Linux 5.14).
    pub exit_stat: bool,
    /// Whether KVM can share memory with the guest read-only (`KVM_CAP_READONLY_MEM`).
    pub readonly_memory: bool,
}

/// Checks that /dev/kvm can be opened and a VM can be created.
///
/// # Errors
/// If one of these steps failed. The error contains the remedy.
pub fn check() -> Result<(), Error> {
    open_kvm()?.create_vm().map_err(Error::create_vm)?;
    Ok(())
}

/// Opens /dev/kvm and tries every facility that the microVM would use. It uses a VM with one vCPU,
/// which it drops afterwards. This takes some milliseconds.
///
/// # Errors
/// The same errors as [`super::Microvm::prepare`], each with the remedy.
pub fn offer() -> Result<KvmOffer, Error> {
    on_trial_vcpu(current_cpu(), |vm, vcpu| {
        Ok(KvmOffer {
            api_version: vm.kvm.get_api_version(),
            steal_clock: vcpu.steal_clock,
            tsc_offset: vcpu.offset_accepted,
            clock: vcpu.clock,
            exit_stat: vcpu.stat(EXITS).and_then(|stat| stat.read()).is_some(),
            readonly_memory: vm.has_readonly_memory(),
        })
    })
}

/// Returns the TSC cycles between consecutive readings of a guest on `cpu`, for each iteration of
/// the polling loop. Gaps are included.
///
/// The measured loop is the polling loop with one more store per iteration, for the result. It does
/// not record gaps. So the result is an upper bound of the cost of an iteration of the polling
/// loop.
///
/// # Errors
/// The same errors as [`super::Microvm::prepare`].
pub fn poll_steps(cpu: u32) -> Result<Vec<u64>, Error> {
    on_trial_vcpu(cpu, |vm, vcpu| {
        let control = &vm.memory.mailbox(0).control;
        control.deadline_tsc.store(u64::MAX, Ordering::Relaxed);
        vcpu.obey(GuestCommand::Sample, &|| false)?;
        Ok(vm.memory.samples(0))
    })
}

fn on_trial_vcpu<T: Send>(
    cpu: u32,
    work: impl FnOnce(&MicrovmMemory, &mut GuestVcpu) -> Result<T, Error> + Send,
) -> Result<T, Error> {
    thread::on(cpu, || {
        let vm = MicrovmMemory::create(&[cpu], None)?;
        work(&vm, &mut GuestVcpu::create(&vm, 0, cpu)?)
    })
}

fn current_cpu() -> u32 {
    u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(0)
}
