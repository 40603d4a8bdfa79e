//! `lab-switches NAME SECONDS` observes a process of this name for SECONDS, and prints JSON. The
//! JSON contains the run time of the process's BPF programs (`kernel.bpf_stats_enabled`), the
//! number of task switches, and how often a vCPU of a microVM got a CPU. The programs have no names
//! in the JSON; their numbers of runs distinguish them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::json;
use vmnoise_testbed::{processes, schedstat};

const STATS: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// For each BPF program by its ID, the number of its runs, and their total time in nanoseconds.
type Programs = BTreeMap<u64, (u64, u64)>;

struct Count {
    programs: Programs,
    switches: u64,
    slices: u64,
}

pub fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, seconds] = &arguments[..] else {
        bail!("usage: lab-switches NAME SECONDS");
    };
    fs::write(STATS, "1").context(STATS)?;
    let before = count(name)?;
    sleep(Duration::from_secs(seconds.parse()?));
    let after = count(name)?;
    fs::write(STATS, "0").context(STATS)?;
    let programs: Vec<_> = after
        .programs
        .iter()
        .map(|(id, (runs, ns))| {
            let (runs_before, ns_before) = before.programs.get(id).copied().unwrap_or_default();
            json!({ "runs": runs - runs_before, "ns": ns - ns_before })
        })
        .collect();
    let document = json!({
        "programs": programs,
        "switches": after.switches - before.switches,
        "slices": after.slices - before.slices,
    });
    println!("{document}");
    Ok(())
}

fn count(name: &str) -> Result<Count> {
    let all = processes::all();
    let pid = |name: &str| all.iter().find(|it| it.name == name).map(|it| it.pid);
    let traced = pid(name).with_context(|| format!("no process is called {name}"))?;
    let stat = fs::read_to_string("/proc/stat")?;
    let switches = number(&stat, "ctxt ").context("no ctxt in /proc/stat")?;
    let slices = pid("vmnoise").map_or(Ok(0), slices_of_vcpus)?;
    Ok(Count {
        programs: programs(traced)?,
        switches,
        slices,
    })
}

fn programs(pid: u32) -> Result<Programs> {
    let mut programs = Programs::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo"))? {
        let Ok(text) = fs::read_to_string(entry?.path()) else {
            continue;
        };
        let number = |name| number(&text, name);
        let runs = number("run_cnt:").zip(number("run_time_ns:"));
        programs.extend(number("prog_id:").zip(runs));
    }
    Ok(programs)
}

/// Returns how many times the vCPUs of a microVM got a CPU.
fn slices_of_vcpus(pid: u32) -> Result<u64> {
    let mut slices = 0;
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = entry?;
        let comm = fs::read_to_string(task.path().join("comm"))?;
        let tid = Path::new(&task.file_name()).to_string_lossy().parse()?;
        if comm.starts_with("vmnoise-vcpu") {
            slices += schedstat::read(pid, tid)?.slices;
        }
    }
    Ok(slices)
}

/// Returns the number after `word`, which is at the start of a line.
fn number(text: &str, word: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(word))?;
    value.trim().parse().ok()
}
