//! Selection of the exits that a run records or that a result shows.

use serde::{Deserialize, Serialize};

use crate::{Name, Vcpu};

/// Filter that selects exits. The default filter selects all exits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ExitFilter {
    /// Name of a VM, or the process id of its VMM; `None` selects all VMs.
    pub vm: Option<Name>,
    /// Numbers of vCPUs; `None` selects all vCPUs.
    pub vcpus: Option<Vec<u32>>,
    /// Names of exit reasons, in upper or lower case; an empty list selects all reasons.
    pub reasons: Vec<Name>,
}

impl ExitFilter {
    /// Returns whether the filter selects the exits of this vCPU. If the filter has vCPU numbers,
    /// it rejects a vCPU whose number is unknown.
    pub fn takes_vcpu(&self, vcpu: &Vcpu) -> bool {
        let takes_vm =
            |wanted: &Name| *wanted == vcpu.vm_name || wanted.parse::<u32>() == Ok(vcpu.vmm_pid);
        let takes_number =
            |wanted: &Vec<u32>| vcpu.number.is_some_and(|number| wanted.contains(&number));
        self.vm.as_ref().is_none_or(takes_vm) && self.vcpus.as_ref().is_none_or(takes_number)
    }

    /// Returns whether the filter selects exits whose reason has this name.
    pub fn takes_reason(&self, name: &str) -> bool {
        let is_it = |wanted: &Name| wanted.eq_ignore_ascii_case(name);
        self.reasons.is_empty() || self.reasons.iter().any(is_it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VcpuId;

    fn vcpu(number: Option<u32>) -> Vcpu {
        Vcpu {
            id: VcpuId(0),
            tid: 10,
            vmm_pid: 9,
            number,
            vm: 0,
            vm_name: "web".into(),
            identity: Default::default(),
            sees_kvm: true,
        }
    }

    #[test]
    fn a_vm_goes_by_its_name_or_its_process() {
        for (wanted, taken) in [("web", true), ("9", true), ("10", false), ("we", false)] {
            let filter = ExitFilter {
                vm: Some(wanted.into()),
                ..ExitFilter::default()
            };
            assert_eq!(filter.takes_vcpu(&vcpu(None)), taken, "{wanted}");
        }
    }

    #[test]
    fn an_unknown_number_is_none_of_those_asked_for() {
        let filter = ExitFilter {
            vcpus: Some(vec![1, 3]),
            ..ExitFilter::default()
        };
        let taken = [None, Some(0), Some(3)].map(|number| filter.takes_vcpu(&vcpu(number)));
        assert_eq!(taken, [false, false, true]);
        assert!(ExitFilter::default().takes_vcpu(&vcpu(None)));
    }

    #[test]
    fn reasons_go_by_name_in_any_case() {
        let filter = ExitFilter {
            reasons: vec!["CPUID".into()],
            ..ExitFilter::default()
        };
        assert!(filter.takes_reason("cpuid") && !filter.takes_reason("hlt"));
        assert!(ExitFilter::default().takes_reason("hlt"));
    }
}
