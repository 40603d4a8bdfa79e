//! Words for an exit: its shares, its CPUs and its vCPU.

use vmnoise_events::{Share, ShareMap};
use vmnoise_explain::{ExitsSummary, VcpuExits, VmExits};

use crate::cells;

/// Returns the shares that took time, largest first.
pub fn by_size(shares: &ShareMap<Option<u64>>) -> Vec<(Share, u64)> {
    let known = shares.iter().map(|(share, ns)| (share, ns.unwrap_or(0)));
    let mut shares: Vec<(Share, u64)> = known.filter(|(_, ns)| *ns > 0).collect();
    shares.sort_by_key(|(share, ns)| (std::cmp::Reverse(*ns), *share));
    shares
}

/// Formats the CPU on which an exit began and the CPU on which it ended. If both are the same, it
/// appears once.
pub fn cpus(exit_cpu: u32, entry_cpu: u32) -> String {
    match exit_cpu == entry_cpu {
        true => format!("CPU {exit_cpu}"),
        false => format!("CPU {exit_cpu} to CPU {entry_cpu}"),
    }
}

/// Returns every vCPU, with its VM.
pub fn vcpus(exits: &ExitsSummary) -> impl Iterator<Item = (&VmExits, &VcpuExits)> {
    let vms = exits.vms.iter();
    vms.flat_map(|vm| vm.vcpus.iter().map(move |vcpu| (vm, vcpu)))
}

/// Returns the name of a vCPU: `VM/number`.
pub fn name(vm: &VmExits, vcpu: &VcpuExits) -> String {
    format!("{}/{}", vm.name, cells::number(vcpu.vcpu.map(u64::from)))
}
