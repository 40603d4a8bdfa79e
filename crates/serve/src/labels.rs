//! What VMs are called in the metrics.

use std::collections::BTreeMap;

use crate::ledger::VmTotals;

/// The label of each VM: its name, and where several have that, its process too.
pub(crate) fn of<'a>(vms: &[&'a VmTotals]) -> Vec<(String, &'a VmTotals)> {
    let mut counts = BTreeMap::new();
    for vm in vms {
        *counts.entry(vm.name.as_str()).or_insert(0) += 1;
    }
    let label = |vm: &&'a VmTotals| match counts.get(vm.name.as_str()) {
        Some(1) => (vm.name.to_string(), *vm),
        _ => (format!("{}:{}", vm.name, vm.pid), *vm),
    };
    vms.iter().map(label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_vms_of_one_name_are_told_apart() {
        let vms = [("web", 7), ("db", 8), ("web", 9)];
        let vms = vms.map(|(name, pid)| VmTotals::new(name.into(), pid));
        let labels = of(&vms.iter().collect::<Vec<_>>());
        let labels: Vec<&str> = labels.iter().map(|(label, _)| label.as_str()).collect();
        assert_eq!(labels, ["web:7", "db", "web:9"]);
    }
}
