//! Clean values of the settings that an audit reads, and the current values on this machine.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};

use crate::processes;

/// Process ID of the parent of all kernel threads.
const KTHREADD: u32 = 2;

/// Settings that exist once, and the values that keep CPU `QUIET` quiet.
const GOOD: [(&str, &str); 17] = [
    ("/proc/irq/default_smp_affinity", "1"),
    ("/proc/sys/kernel/nmi_watchdog", "0"),
    ("/proc/sys/kernel/numa_balancing", "0"),
    ("/proc/sys/kernel/sched_rt_runtime_us", "-1"),
    ("/proc/sys/kernel/soft_watchdog", "0"),
    ("/proc/sys/kernel/watchdog_thresh", "10"),
    ("/proc/sys/kernel/watchdog_cpumask", "0"),
    ("/proc/sys/kernel/timer_migration", "0"),
    ("/proc/sys/vm/compaction_proactiveness", "0"),
    ("/proc/sys/vm/stat_interval", "10"),
    ("/sys/bus/workqueue/devices/writeback/cpumask", "1"),
    (
        "/sys/devices/system/machinecheck/machinecheck0/check_interval",
        "0",
    ),
    ("/sys/devices/virtual/workqueue/cpumask", "1"),
    ("/sys/kernel/mm/ksm/run", "0"),
    ("/sys/kernel/mm/ksm/sleep_millisecs", "20"),
    ("/sys/kernel/mm/transparent_hugepage/enabled", "madvise"),
    (
        "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs",
        "10000",
    ),
];

/// Settings that exist once per interrupt, device or cgroup: folder, path of the file below each
/// entry, and clean value.
const EACH: [(&str, &str, &str); 3] = [
    ("/proc/irq", "smp_affinity_list", "0"),
    ("/sys/class/net", "queues/rx-0/rps_cpus", "0"),
    ("/sys/fs/cgroup", "cpu.max", "max"),
];

/// Sets all settings to their clean values. Leaves out settings that this machine does not have or
/// cannot change.
pub(super) fn clean() {
    let each = EACH.iter().flat_map(|(folder, file, good)| {
        let files = files(folder, file).into_iter();
        files.map(move |file| (file, *good))
    });
    let good = GOOD.iter().map(|(file, good)| ((*file).to_owned(), *good));
    for (file, value) in good.chain(each) {
        // The kernel refuses to move an interrupt that is bound to its CPU.
        let _ = fs::write(file, value);
    }
}

/// Sets one setting.
pub(super) fn set(file: &str, value: &str) -> Result<()> {
    fs::write(file, value).with_context(|| format!("writing {value} to {file}"))
}

/// Returns the current values of all settings, by file.
pub(super) fn all() -> BTreeMap<String, String> {
    let each = EACH
        .iter()
        .flat_map(|(folder, file, _)| files(folder, file));
    let files = GOOD.iter().map(|(file, _)| (*file).to_owned()).chain(each);
    let read = files.filter_map(|file| Some((file.clone(), fs::read_to_string(file).ok()?)));
    read.chain(threads()).collect()
}

/// Returns the CPUs that each kernel thread may use, by the thread's status file. Leaves out
/// workers, because the kernel creates and ends them at any time.
fn threads() -> impl Iterator<Item = (String, String)> {
    let all = processes::all().into_iter();
    let kept = all.filter(|it| it.parent == KTHREADD && !it.name.starts_with("kworker/"));
    kept.filter_map(|it| {
        let file = format!("/proc/{}/status", it.pid);
        let status = fs::read_to_string(&file).ok()?;
        let cpus = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some((file, cpus.to_owned()))
    })
}

fn files(folder: &str, file: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path().join(file));
    let paths = paths.filter(|path| path.is_file());
    paths.map(|path| path.display().to_string()).collect()
}
