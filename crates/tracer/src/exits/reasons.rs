//! Sources of exit reasons. `kvm_exit` does not have the reason as an argument.

use crate::btf::KernelBtf;

/// Source of exit reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasonSource {
    /// The structures of a vendor's KVM module, found by its BTF.
    Btf {
        /// Name of the module: `kvm_amd` or `kvm_intel`.
        module: &'static str,
    },
    /// The reason why KVM_RUN returned. This KVM (kvm_pvm) never reports that a guest was left.
    KvmRun,
    /// None: no BTF shows where KVM stores the reasons.
    Unread,
}

impl ReasonSource {
    /// Returns the source for this vendor's module; `kvm_module` is `None` if no known module is
    /// loaded.
    pub(crate) fn of(kvm_module: Option<&str>, btf: &KernelBtf) -> ReasonSource {
        let by_btf = |module, structure| match btf.has_vcpu_structure(structure) {
            true => ReasonSource::Btf { module },
            false => ReasonSource::Unread,
        };
        match kvm_module {
            Some("kvm_amd") => by_btf("kvm_amd", "vcpu_svm"),
            Some("kvm_intel") => by_btf("kvm_intel", "vcpu_vmx"),
            Some("kvm_pvm") => ReasonSource::KvmRun,
            _ => ReasonSource::Unread,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_without_btf_leaves_reasons_unread() {
        let btf = KernelBtf::default();
        for (module, source) in [
            (Some("kvm_intel"), ReasonSource::Unread),
            (Some("kvm_pvm"), ReasonSource::KvmRun),
            (None, ReasonSource::Unread),
        ] {
            assert_eq!(ReasonSource::of(module, &btf), source);
        }
    }
}
