//! Words for an exit: its shares and its vCPU.

use vmnoise_events::{Share, ShareMap};
use vmnoise_explain::{ExitsSummary, VcpuExits, VmExits};

use crate::output::cells;

/// Returns the shares that took time, largest first.
pub fn by_size(shares: &ShareMap<Option<u64>>) -> Vec<(Share, u64)> {
    let known = shares.iter().map(|(share, ns)| (share, ns.unwrap_or(0)));
    let mut shares: Vec<(Share, u64)> = known.filter(|(_, ns)| *ns > 0).collect();
    shares.sort_by_key(|(share, ns)| (std::cmp::Reverse(*ns), *share));
    shares
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
