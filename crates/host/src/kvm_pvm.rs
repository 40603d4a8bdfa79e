//! `kvm_pvm`, a vendor module of KVM that runs guests without hardware virtualization (PVM). It is
//! not part of Linux, so no kernel of a distribution has it.
//!
//! Under this module the tracepoints `kvm_exit` and `kvm_entry` never fire. Two places compare its
//! name: the tracer, and the check of typed exit reasons. All other code asks whether the host sees
//! KVM (`Vcpu::sees_kvm` of `vmnoise-events`).

/// Name of the module.
pub const KVM_PVM: &str = "kvm_pvm";
