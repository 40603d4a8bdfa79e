//! `lab-memory NAME` prints the memory of a process of this name as JSON. It prints the peak of the
//! resident memory, and the kernel memory of the process's BPF maps and programs
//! (/proc/PID/fdinfo).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::json;
use vmnoise_testbed::processes;

pub fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name] = &arguments[..] else {
        bail!("usage: lab-memory NAME");
    };
    let all = processes::all();
    let process = all.iter().find(|process| process.name == *name);
    let pid = process
        .with_context(|| format!("no process is called {name}"))?
        .pid;
    let folder = Path::new("/proc").join(pid.to_string());
    let resident_kib = number(&fs::read_to_string(folder.join("status"))?, "VmHWM");
    // Several descriptors may refer to the same map or program, so each ID counts once.
    let mut of_bpf = BTreeMap::new();
    for entry in fs::read_dir(folder.join("fdinfo"))? {
        let Ok(text) = fs::read_to_string(entry?.path()) else {
            continue;
        };
        let id = number(&text, "map_id").map(|id| ("map", id));
        let id = id.or(number(&text, "prog_id").map(|id| ("program", id)));
        if let (Some(id), Some(bytes)) = (id, number(&text, "memlock")) {
            of_bpf.insert(id, bytes);
        }
    }
    let of_bpf: u64 = of_bpf.values().sum();
    let resident = resident_kib.context("no VmHWM")? * 1024;
    println!(
        "{}",
        json!({ "resident_bytes": resident, "bpf_bytes": of_bpf })
    );
    Ok(())
}

/// Returns the number after `NAME:` in a file of /proc.
fn number(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(known, _)| *known == name)?;
    value.split_whitespace().next()?.parse().ok()
}
