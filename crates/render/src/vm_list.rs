//! List of the VMs of a host, for `vmnoise exits --list`.

use anyhow::Result;
use serde::Serialize;
use vmnoise_events::VmIdentity;
use vmnoise_host::VmProcess;

use super::{json, table};
use crate::format::Format;

/// JSON document `vmnoise.vms/1`.
#[derive(Debug, Serialize)]
struct VmList<'a> {
    schema: &'static str,
    vms: Vec<ListedVm<'a>>,
}

#[derive(Debug, Serialize)]
struct ListedVm<'a> {
    vm: u32,
    name: &'a str,
    identity: &'a VmIdentity,
    vcpus: Vec<ListedVcpu<'a>>,
}

#[derive(Debug, Serialize)]
struct ListedVcpu<'a> {
    vcpu: u32,
    tid: u32,
    cpus: &'a str,
    policy: &'a str,
}

/// Prints the VMs of this host.
///
/// # Errors
/// If stdout cannot be written.
pub fn print(vms: &[VmProcess], format: Format) -> Result<()> {
    if format == Format::Json {
        let vms = vms.iter().map(|vm| ListedVm {
            vm: vm.pid,
            name: &vm.name,
            identity: &vm.identity,
            vcpus: vm
                .vcpus
                .iter()
                .map(|vcpu| ListedVcpu {
                    vcpu: vcpu.id,
                    tid: vcpu.tid,
                    cpus: &vcpu.cpus,
                    policy: &vcpu.policy,
                })
                .collect(),
        });
        let list = VmList {
            schema: "vmnoise.vms/1",
            vms: vms.collect(),
        };
        let mut out = Vec::new();
        json::write(&mut out, &list)?;
        return super::write(&out);
    }
    let each = vms.iter().flat_map(|vm| {
        let vcpus = vm.vcpus.iter().map(move |vcpu| (vm, Some(vcpu)));
        vcpus.chain(vm.vcpus.is_empty().then_some((vm, None)))
    });
    let out = table::of(&each.collect::<Vec<_>>(), |it| {
        let text = |text: Option<&String>| text.map_or("-", |it| it).to_owned();
        it.name("VM", |(vm, _)| Some(&vm.name))
            .count("PID", |(vm, _)| u64::from(vm.pid))
            .count("vCPU", |(_, vcpu)| vcpu.map(|it| u64::from(it.id)))
            .count("TID", |(_, vcpu)| vcpu.map(|it| u64::from(it.tid)))
            .figure("CPUs", move |(_, vcpu)| text(vcpu.map(|it| &it.cpus)))
            .figure("policy", move |(_, vcpu)| text(vcpu.map(|it| &it.policy)))
    });
    let identities: String = vms.iter().filter_map(identity).collect();
    super::write((out + &identities).as_bytes())
}

/// Returns a line with the facts that identify a VM; `None` if no fact is known.
fn identity(vm: &VmProcess) -> Option<String> {
    let known = vm.identity.known();
    let facts: Vec<String> = known
        .map(|(fact, word)| format!("{} {word}", fact.name()))
        .collect();
    (!facts.is_empty()).then(|| format!("{} (process {}): {}\n", vm.name, vm.pid, facts.join(", ")))
}
