//! Reads KVM's own counters of the VMs of a process, from debugfs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

/// Folder in which KVM keeps a folder `PID-FD` for each VM (virt/kvm/kvm_main.c).
const KVM: &str = "/sys/kernel/debug/kvm";

/// Returns the counters of a process by name (`exits`, `io_exits`, `halt_exits`), summed over the
/// vCPUs of all its VMs. The map is empty if the process has no VM.
///
/// # Errors
/// If debugfs is not mounted, or a counter cannot be read.
pub fn counters(pid: u32) -> Result<BTreeMap<String, u64>> {
    let mut counters = BTreeMap::new();
    for folder in vms(pid)? {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            // The folder also contains histograms and folders of vCPUs, which are no single number.
            let text = fs::read_to_string(&path).unwrap_or_default();
            if let (Some(name), Ok(number)) = (file_name(&path), text.trim().parse::<u64>()) {
                *counters.entry(name.to_owned()).or_default() += number;
            }
        }
    }
    Ok(counters)
}

/// Returns the counter `exits` of a process, summed over its VMs; 0 if the process has no VM.
///
/// # Errors
/// If debugfs is not mounted.
pub fn exits(pid: u32) -> Result<u64> {
    let counts = vms(pid)?.into_iter().filter_map(|folder| {
        let text = fs::read_to_string(folder.join("exits")).ok()?;
        text.trim().parse::<u64>().ok()
    });
    Ok(counts.sum())
}

/// Returns the vCPUs of a process that have run. For each, returns its number and its thread ID.
///
/// # Errors
/// If debugfs is not mounted.
pub fn vcpus(pid: u32) -> Result<Vec<(u32, u32)>> {
    let mut vcpus = Vec::new();
    for folder in vms(pid)? {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            let number = file_name(&path).and_then(|name| name.strip_prefix("vcpu")?.parse().ok());
            let tid = fs::read_to_string(path.join("pid")).ok();
            let tid = tid.and_then(|text| text.trim().parse().ok());
            if let (Some(number), Some(tid)) = (number, tid.filter(|&tid| tid != 0)) {
                vcpus.push((number, tid));
            }
        }
    }
    vcpus.sort_unstable();
    Ok(vcpus)
}

/// Returns the difference between a vCPU's TSC and this machine's TSC, in cycles.
///
/// # Errors
/// If debugfs is not mounted, there is no such vCPU, or its TSC has another frequency.
pub fn tsc_offset(pid: u32, vcpu: u32) -> Result<i64> {
    for folder in vms(pid)? {
        let file = |name: &str| fs::read_to_string(folder.join(format!("vcpu{vcpu}/{name}")));
        // The first two files exist only if this machine could scale the TSC
        // (arch/x86/kvm/debugfs.c).
        if let (Ok(ratio), Ok(bits)) = (
            file("tsc-scaling-ratio"),
            file("tsc-scaling-ratio-frac-bits"),
        ) {
            let one = 1_u64 << bits.trim().parse::<u32>()?;
            ensure!(ratio.trim().parse::<u64>()? == one, "its TSC is scaled");
        }
        if let Ok(offset) = file("tsc-offset") {
            return Ok(offset.trim().parse()?);
        }
    }
    bail!("{KVM} has no tsc-offset of vCPU {vcpu} of process {pid}")
}

fn vms(pid: u32) -> Result<Vec<PathBuf>> {
    let of_process = format!("{pid}-");
    let mut folders = Vec::new();
    for entry in fs::read_dir(KVM).context(KVM)? {
        let path = entry?.path();
        if file_name(&path).is_some_and(|name| name.starts_with(&of_process)) {
            folders.push(path);
        }
    }
    Ok(folders)
}

fn file_name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}
