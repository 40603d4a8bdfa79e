//! Finds the possible vCPUs of the guest's CPUs, before gaps and exits are compared.

use std::collections::BTreeMap;

use vmnoise_events::{MeasuringCommand, RunFacts, Vcpu, VcpuId};

use super::error::JoinError;
use super::reported::{ReportedVcpu, ReportedVcpus, name_of, vm_name_of, vm_of};

/// Assignment of each CPU of the guest to a vCPU of one VM.
pub(super) type Candidate = Vec<(u32, VcpuId)>;

/// Returns one candidate for each VM that has a vCPU for any of these CPUs. The guest is one VM, so
/// all its CPUs are vCPUs of the same VM.
pub(super) fn candidates(
    guest: &RunFacts,
    cpus: &[u32],
    reported: &ReportedVcpus,
    only: Option<&str>,
) -> Result<Vec<Candidate>, JoinError> {
    let all: Vec<(&Vcpu, &ReportedVcpu)> = reported.iter().collect();
    if all.is_empty() {
        return Err(JoinError::NoVcpus);
    }
    let mut vms: BTreeMap<(u32, u64), Vec<(&Vcpu, &ReportedVcpu)>> = BTreeMap::new();
    for &(vcpu, reported) in &all {
        vms.entry(vm_of(vcpu)).or_default().push((vcpu, reported));
    }
    if let Some(wanted) = only {
        vms.retain(|(pid, _), of_vm| {
            let mut of_vm = of_vm.iter();
            of_vm.any(|(vcpu, _)| vcpu.vm_name == wanted) || wanted.parse() == Ok(*pid)
        });
        if vms.is_empty() {
            return Err(JoinError::NoSuchVm {
                wanted: wanted.to_string(),
                vms: names(all.iter().map(|(vcpu, _)| vm_name_of(vcpu))),
            });
        }
    }
    let cpus_by_number = by_number(guest, cpus);
    let mut out = Vec::new();
    let mut without_clock = None;
    for of_vm in vms.into_values() {
        let mut vcpus = Vec::new();
        for (number, of_number) in by_number_of_vcpu(guest, of_vm) {
            // Each CPU takes the next vCPU of its number. A vCPU without a known clock ends the
            // list.
            let cpus = cpus_by_number.get(&number).into_iter().flatten();
            for (cpu, (vcpu, reported)) in cpus.zip(of_number) {
                if !knows_clock(guest, reported) {
                    without_clock = Some(vcpu);
                    break;
                }
                vcpus.push((*cpu, vcpu.id));
            }
        }
        vcpus.sort_unstable_by_key(|(cpu, _)| *cpu);
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

/// Returns the guest's CPUs, grouped by the number of the vCPU that each CPU requires.
fn by_number(guest: &RunFacts, cpus: &[u32]) -> BTreeMap<u32, Vec<u32>> {
    let numbers = Numbers::of(guest);
    let mut by_number: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for cpu in cpus {
        let number = match guest.workload {
            MeasuringCommand::Microvm => *cpu,
            _ => numbers.of_cpu(*cpu),
        };
        by_number.entry(number).or_default().push(*cpu);
    }
    by_number
}

/// Returns the vCPUs, grouped by number. KVM identifies a vCPU by the APIC id that its VMM set
/// (KVM_CREATE_VCPU). The microVM of vmnoise numbers its CPUs by the host CPUs to which its vCPUs
/// are pinned.
fn by_number_of_vcpu<'a>(
    guest: &RunFacts,
    vcpus: Vec<(&'a Vcpu, &'a ReportedVcpu)>,
) -> BTreeMap<u32, Vec<(&'a Vcpu, &'a ReportedVcpu)>> {
    let mut by_number: BTreeMap<u32, Vec<_>> = BTreeMap::new();
    for (vcpu, reported) in vcpus {
        let number = match guest.workload {
            MeasuringCommand::Microvm => reported.home_cpu(),
            _ => vcpu.number,
        };
        if let Some(number) = number {
            by_number.entry(number).or_default().push((vcpu, reported));
        }
    }
    by_number
}

/// Number of the vCPU of each guest CPU, which is the CPU's APIC id.
struct Numbers(BTreeMap<u32, u32>);

impl Numbers {
    fn of(guest: &RunFacts) -> Numbers {
        // If a CPU is listed twice, the first entry counts.
        Numbers(guest.host.apic_ids.iter().rev().copied().collect())
    }

    fn of_cpu(&self, cpu: u32) -> u32 {
        self.0.get(&cpu).copied().unwrap_or(cpu)
    }
}

/// Returns whether the relation of the guest's clock to the host's is known. A microVM reports its
/// gaps on the host's counter, so it needs no relation.
fn knows_clock(guest: &RunFacts, reported: &ReportedVcpu) -> bool {
    guest.workload == MeasuringCommand::Microvm || reported.clock.is_known()
}

fn wanted(guest: &RunFacts, cpus: &[u32]) -> String {
    let cpus = cpus.iter();
    let numbers = Numbers::of(guest);
    let each: Vec<String> = match guest.workload {
        MeasuringCommand::Microvm => cpus
            .map(|cpu| format!("none ran mostly on CPU {cpu}"))
            .collect(),
        _ => cpus
            .map(|cpu| format!("CPU {cpu} would be vCPU {}", numbers.of_cpu(*cpu)))
            .collect(),
    };
    each.join(", ")
}

/// Returns each name once.
fn names(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = all.collect();
    names.sort_unstable();
    names.dedup();
    names
}
