//! Which vCPUs may be which CPUs of the guest, before the data are asked.

use vmnoise_events::{RunFacts, Vcpu, VcpuId, Workload};

use super::error::JoinError;
use super::told::{ToldVcpu, ToldVcpus, name_of, vm_name_of, vm_of};

/// Which vCPU of one VM each CPU of the guest would be.
pub(super) type Candidate = Vec<(u32, VcpuId)>;

/// One candidate for each VM that has a vCPU for any of these CPUs. The guest is one VM, so
/// all its CPUs are vCPUs of the same.
pub(super) fn candidates(
    guest: &RunFacts,
    cpus: &[u32],
    told: &ToldVcpus,
    only: Option<&str>,
) -> Result<Vec<Candidate>, JoinError> {
    let all: Vec<(&Vcpu, &ToldVcpu)> = told.iter().collect();
    if all.is_empty() {
        return Err(JoinError::NoVcpus);
    }
    let mut vms: Vec<(u32, u64)> = all.iter().map(|(vcpu, _)| vm_of(vcpu)).collect();
    vms.sort_unstable();
    vms.dedup();
    if let Some(wanted) = only {
        let is_wanted = |(pid, vm): &(u32, u64)| {
            let mut of_vm = all.iter().filter(|(vcpu, _)| vm_of(vcpu) == (*pid, *vm));
            of_vm.any(|(vcpu, _)| vcpu.vm_name == wanted) || wanted.parse() == Ok(*pid)
        };
        vms.retain(is_wanted);
        if vms.is_empty() {
            return Err(JoinError::NoSuchVm {
                wanted: wanted.to_string(),
                vms: names(all.iter().map(|(vcpu, _)| vm_name_of(vcpu))),
            });
        }
    }
    let mut out = Vec::new();
    let mut without_clock = None;
    for vm in vms {
        let of_vm: Vec<&(&Vcpu, &ToldVcpu)> =
            all.iter().filter(|(vcpu, _)| vm_of(vcpu) == vm).collect();
        let mut vcpus = Vec::new();
        for cpu in cpus {
            let is_free = |vcpu: &Vcpu| vcpus.iter().all(|(_, taken)| *taken != vcpu.id);
            let mut free = of_vm.iter().filter(|(vcpu, _)| is_free(vcpu));
            let fits = free.find(|it| is_cpu(guest, *cpu, it));
            match fits {
                Some((vcpu, told)) if !knows_clock(guest, told) => without_clock = Some(*vcpu),
                Some((vcpu, _)) => vcpus.push((*cpu, vcpu.id)),
                None => {}
            }
        }
        if !vcpus.is_empty() {
            out.push(vcpus);
        }
    }
    match (out.is_empty(), without_clock) {
        (false, _) => Ok(out),
        (true, Some(vcpu)) => Err(JoinError::NoClock {
            vcpu: name_of(vcpu),
        }),
        (true, None) => Err(JoinError::NoCandidate {
            wanted: wanted(guest, cpus),
            vcpus: names(all.iter().map(|(vcpu, _)| name_of(vcpu))),
        }),
    }
}

/// KVM calls a vCPU by the APIC id that its VMM gave it (KVM_CREATE_VCPU). Our own microVM
/// calls its CPUs by those of the host that they are pinned to.
fn is_cpu(guest: &RunFacts, cpu: u32, (vcpu, told): &(&Vcpu, &ToldVcpu)) -> bool {
    match guest.workload {
        Workload::Microvm => told.home_cpu() == Some(cpu),
        _ => vcpu.number == Some(number_of(guest, cpu)),
    }
}

/// Which number the vCPU of this CPU has.
fn number_of(guest: &RunFacts, cpu: u32) -> u32 {
    let ids = &guest.host.apic_ids;
    let known = ids.iter().find(|(number, _)| *number == cpu);
    known.map_or(cpu, |(_, apic_id)| *apic_id)
}

/// The gaps of a microVM are on its host's counter as they come.
fn knows_clock(guest: &RunFacts, told: &ToldVcpu) -> bool {
    guest.workload == Workload::Microvm || told.clock.is_known()
}

fn wanted(guest: &RunFacts, cpus: &[u32]) -> String {
    let cpus = cpus.iter();
    let each: Vec<String> = match guest.workload {
        Workload::Microvm => cpus
            .map(|cpu| format!("none ran mostly on CPU {cpu}"))
            .collect(),
        _ => cpus
            .map(|cpu| format!("CPU {cpu} would be vCPU {}", number_of(guest, *cpu)))
            .collect(),
    };
    each.join(", ")
}

/// Each once.
fn names(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = all.collect();
    names.sort_unstable();
    names.dedup();
    names
}
