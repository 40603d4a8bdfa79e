//! The VMs of a host, for `vmnoise exits --list`.

use anyhow::Result;
use serde::Serialize;
use vmnoise_tracer::host::Vm;

use super::{json, table};
use crate::output::format::Format;

/// `vmnoise.vms/1`.
#[derive(Debug, Serialize)]
struct VmList<'a> {
    schema: &'static str,
    vms: Vec<ListedVm<'a>>,
}

#[derive(Debug, Serialize)]
struct ListedVm<'a> {
    vm: u32,
    name: &'a str,
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
pub fn print(vms: &[Vm], format: Format) -> Result<()> {
    if format == Format::Json {
        let vms = vms.iter().map(|vm| ListedVm {
            vm: vm.pid,
            name: &vm.name,
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
    let mut rows = Vec::new();
    for vm in vms {
        if vm.vcpus.is_empty() {
            let [pid, none] = [vm.pid.to_string(), "-".to_owned()];
            rows.push([
                vm.name.to_string(),
                pid,
                none.clone(),
                none.clone(),
                none.clone(),
                none,
            ]);
        }
        for vcpu in &vm.vcpus {
            rows.push([
                vm.name.to_string(),
                vm.pid.to_string(),
                vcpu.id.to_string(),
                vcpu.tid.to_string(),
                vcpu.cpus.clone(),
                vcpu.policy.clone(),
            ]);
        }
    }
    let headings = ["VM", "PID", "vCPU", "TID", "CPUs", "policy"];
    super::write(table::columns(headings, &[0], &rows).as_bytes())
}
