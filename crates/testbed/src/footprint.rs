//! Reads state that a run could leave changed on this machine, from kernel files and bpftool. Tests
//! compare the state before a run with the state after it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Settings that measuring tools are known to change, one file each. [`settings`] returns a missing
/// file as empty.
const SETTINGS: [&str; 9] = [
    "/proc/sys/kernel/bpf_stats_enabled",
    "/proc/sys/kernel/sched_rt_runtime_us",
    "/proc/sys/kernel/perf_event_paranoid",
    "/proc/sys/kernel/nmi_watchdog",
    "/proc/irq/default_smp_affinity",
    "/sys/devices/system/cpu/online",
    "/sys/kernel/tracing/tracing_on",
    "/sys/kernel/tracing/set_event",
    "/sys/kernel/tracing/current_tracer",
];
/// Folder of all cgroups.
const GROUPS: &str = "/sys/fs/cgroup";
/// Folder with the idle states of each CPU (Documentation/admin-guide/pm/cpuidle.rst).
const CPUS: &str = "/sys/devices/system/cpu";
/// Folders whose entries can outlive the process that made them.
const FOLDERS: [&str; 4] = [
    "/sys/fs/bpf",
    "/sys/kernel/tracing/instances",
    "/sys/kernel/tracing/events/synthetic",
    "/dev/shm",
];

/// Returns the settings of this machine: the content of each file by its path. For a folder, the
/// content is the list of its entries.
pub fn settings() -> BTreeMap<String, Vec<u8>> {
    let mut found: BTreeMap<String, Vec<u8>> = SETTINGS
        .iter()
        .map(|&file| (file.to_owned(), fs::read(file).unwrap_or_default()))
        .collect();
    // This file contains four bytes: the longest wake-up latency in microseconds that all processes
    // accept (pm_qos_interface.rst). Opening the file for reading requests nothing.
    found.insert("/dev/cpu_dma_latency".to_owned(), dma_latency());
    for folder in FOLDERS {
        let names = entries(Path::new(folder)).into_iter().collect::<Vec<_>>();
        found.insert(folder.to_owned(), names.join("\n").into_bytes());
    }
    let mut groups = Vec::new();
    subfolders(Path::new(GROUPS), &mut groups);
    let ours = own_groups();
    groups.retain(|group| !ours.iter().any(|own| is_beside(group, own)));
    groups.sort();
    found.insert(GROUPS.to_owned(), groups.join("\n").into_bytes());
    for line in entries(Path::new("/proc/irq")) {
        let file = format!("/proc/irq/{line}/smp_affinity_list");
        if let Ok(list) = fs::read(&file) {
            found.insert(file, list);
        }
    }
    for cpu in entries(Path::new(CPUS)) {
        let states = format!("{CPUS}/{cpu}/cpuidle");
        for state in entries(Path::new(&states)) {
            let file = format!("{states}/{state}/disable");
            if let Ok(is_off) = fs::read(&file) {
                found.insert(file, is_off);
            }
        }
    }
    found
}

/// Returns the paths of this process's cgroups, one per hierarchy (cgroups(7)).
fn own_groups() -> Vec<String> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.map(str::to_owned).collect()
}

/// Returns whether `group` lies below the parent of `own`, but not in `own`. Returns false if this
/// parent is the root. The program that made `own` also makes cgroups there for short-lived
/// processes.
fn is_beside(group: &str, own: &str) -> bool {
    let parent = own.rsplit_once('/').map_or("", |(parent, _)| parent);
    !parent.is_empty() && group.contains(&format!("{parent}/")) && !group.contains(own)
}

fn dma_latency() -> Vec<u8> {
    use std::io::Read;
    let mut value = vec![0; 4];
    let read =
        fs::File::open("/dev/cpu_dma_latency").and_then(|mut file| file.read_exact(&mut value));
    read.map_or_else(|_| Vec::new(), |()| value)
}

fn entries(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

fn subfolders(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.push(entry.path().display().to_string());
            subfolders(&entry.path(), found);
        }
    }
}

/// Returns the memory that a process uses, in KiB: `VmRSS` of proc_pid_status(5).
///
/// # Errors
/// If the process has ended.
pub fn resident_kb(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kb = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kb.context("no VmRSS: vmnoise has ended")?.parse()?)
}

/// Time within which the kernel must free objects that no process uses any more.
const PATIENCE: Duration = Duration::from_secs(20);

/// Kernel objects that a process holds by file descriptors.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct OpenDescriptors {
    /// IDs of BPF programs.
    pub programs: BTreeSet<u32>,
    /// IDs of BPF maps.
    pub maps: BTreeSet<u32>,
    /// IDs of BPF links, which attach programs.
    pub links: BTreeSet<u32>,
    /// Whether the process has a descriptor that keeps the kernel's accounting of BPF run time on.
    pub accounting: bool,
}

impl OpenDescriptors {
    /// Reads the objects that a running process holds (proc_pid_fdinfo(5)).
    ///
    /// # Errors
    /// If the process has ended.
    pub fn by(pid: u32) -> Result<OpenDescriptors> {
        let mut held = OpenDescriptors::default();
        let folder = format!("/proc/{pid}/fd");
        for entry in fs::read_dir(&folder).context(folder)?.flatten() {
            let target = fs::read_link(entry.path()).unwrap_or_default();
            held.accounting |= target.to_string_lossy().contains("bpf-stats");
            let name = entry.file_name();
            let info = format!("/proc/{pid}/fdinfo/{}", name.display());
            // The text of a link also contains the ID of the link's program.
            let text = fs::read_to_string(info).unwrap_or_default();
            for line in text.lines() {
                let Some((key, id)) = line.split_once(':') else {
                    continue;
                };
                let Ok(id) = id.trim().parse() else {
                    continue;
                };
                match key {
                    "prog_id" => held.programs.insert(id),
                    "map_id" => held.maps.insert(id),
                    "link_id" => held.links.insert(id),
                    _ => false,
                };
            }
        }
        Ok(held)
    }

    /// Returns the programs, maps and links of this value that the kernel still has.
    ///
    /// # Errors
    /// If bpftool cannot be started.
    pub fn left(&self) -> Result<Vec<String>> {
        let mut left = Vec::new();
        let kinds = [
            ("prog", &self.programs),
            ("map", &self.maps),
            ("link", &self.links),
        ];
        for (kind, ids) in kinds {
            for id in ids {
                let output = Command::new("bpftool")
                    .args([kind, "show", "id", &id.to_string()])
                    .output()
                    .context("starting bpftool")?;
                if output.status.success() {
                    let line = String::from_utf8_lossy(&output.stdout);
                    left.push(format!("{kind} {}", line.trim()));
                }
            }
        }
        Ok(left)
    }

    /// Waits until the kernel has freed all of these objects, at most 20 s. Returns the objects
    /// that still exist then. The kernel frees an object some time after its last user has gone.
    ///
    /// # Errors
    /// If bpftool cannot be started.
    pub fn left_for_good(&self) -> Result<Vec<String>> {
        let begin = Instant::now();
        loop {
            let left = self.left()?;
            if left.is_empty() || begin.elapsed() >= PATIENCE {
                return Ok(left);
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}
