//! Facilities of this machine's KVM for the microVM, for a caller that asks before it measures.

use std::sync::atomic::Ordering;

use super::guest::GuestCommand;
use super::stats::EXITS;
use super::vcpu::GuestVcpu;
use super::vm::{MicrovmMemory, open_kvm};
use super::{Error, GuestClock};
use crate::thread;

/// The facilities of a trial VM on one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvmOffer {
    /// `KVM_GET_API_VERSION`; 12 on every kernel since 2.6.22.
    pub api_version: i32,
    /// KVM accepted `MSR_KVM_STEAL_TIME`, so the guest has a steal clock.
    pub steal_clock: bool,
    /// KVM accepted `KVM_VCPU_TSC_OFFSET` (Linux 5.16).
    pub tsc_offset: bool,
    /// The relation of the trial guest's clock to the host's.
    pub clock: GuestClock,
    /// KVM counts the exits of each vCPU (binary statistics, Linux 5.14).
    pub exit_stat: bool,
    /// Memory can be shared with the guest read-only (`KVM_CAP_READONLY_MEM`).
    pub readonly_memory: bool,
}

/// Opens /dev/kvm, and creates and drops a VM.
///
/// # Errors
/// What this machine lacks, with the remedy.
pub fn check() -> Result<(), Error> {
    open_kvm()?.create_vm().map_err(Error::create_vm)?;
    Ok(())
}

/// Opens /dev/kvm and tries everything that the microVM would use, on a VM with one vCPU that is
/// dropped afterwards. It takes some milliseconds.
///
/// # Errors
/// The same as [`super::Microvm::prepare`], each with the remedy.
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

/// Returns the cycles between consecutive readings of a guest on `cpu`, one per step of the polling
/// loop, with gaps.
///
/// This is the measuring loop, with one more store per step (of the number itself), and it never
/// leaves for a gap. So the result is an upper bound on the real step.
///
/// # Errors
/// The same as [`super::Microvm::prepare`].
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
