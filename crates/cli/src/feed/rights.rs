//! What serving guests needs, and nothing beyond it.

use std::path::Path;

use anyhow::{Context, Result};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, set_capabilities,
    set_no_new_privs,
};

use crate::status::MachineCannot;

/// Until the programs are attached, with what each is for.
const TO_START: [(CapabilitySet, &str, &str); 4] = [
    (CapabilitySet::BPF, "CAP_BPF", "to load BPF programs"),
    (CapabilitySet::PERFMON, "CAP_PERFMON", "to trace the kernel"),
    (
        CapabilitySet::SYS_PTRACE,
        "CAP_SYS_PTRACE",
        "to see which process has which VM",
    ),
    (
        CapabilitySet::DAC_OVERRIDE,
        "CAP_DAC_OVERRIDE",
        "to read KVM's debugfs and to connect to the sockets of VMMs",
    ),
];
/// The kernel hands out a module's type information to nobody else.
const TO_TRACE_A_MODULE: (CapabilitySet, &str, &str) = (
    CapabilitySet::SYS_ADMIN,
    "CAP_SYS_ADMIN",
    "to trace KVM, which is a module here",
);
/// For as long as guests are served. CAP_BPF: before Linux 5.19 maps are not read without.
const TO_SERVE: CapabilitySet = CapabilitySet::BPF
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::DAC_OVERRIDE);

/// Refuses to begin without what is needed: half of it would show as guests that are never
/// served.
pub fn check() -> Result<()> {
    let held = capabilities(None).context("reading the capabilities of this process")?;
    let kvm_is_module = Path::new("/sys/kernel/btf/kvm").exists();
    let of_module = kvm_is_module.then_some(TO_TRACE_A_MODULE);
    for (capability, name, purpose) in TO_START.into_iter().chain(of_module) {
        if !held.effective.contains(capability) {
            let why = format!("--feed needs {name} {purpose}: run it as root, or see docs/feed.md");
            return Err(MachineCannot(why).into());
        }
    }
    Ok(())
}

/// Gives up all rights but those that serving needs, for this thread and all it starts.
pub fn drop_to_serve() -> Result<()> {
    let held = capabilities(None).context("reading the capabilities of this process")?;
    let kept = held.effective.intersection(TO_SERVE);
    clear_ambient_capability_set().context("giving up ambient capabilities")?;
    set_no_new_privs(true).context("giving up new privileges")?;
    set_capabilities(
        None,
        CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        },
    )
    .context("giving up capabilities")
}
