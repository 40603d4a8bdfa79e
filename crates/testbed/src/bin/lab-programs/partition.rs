//! `lab-partition CPU alone|together COMMAND...` works inside a lab only. It makes this CPU a
//! cpuset partition named `cpuCPU`, and becomes the command. With `together`, the command runs in
//! the partition. With `alone`, the partition stays empty until threads move themselves there.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::mount::{MountFlags, mount};

const ROOT: &str = "/sys/fs/cgroup";

pub fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [cpu, whom, program, rest @ ..] = &arguments[..] else {
        bail!("usage: lab-partition CPU alone|together COMMAND...");
    };
    if !Path::new(ROOT).join("cgroup.procs").exists() {
        mount("cgroup2", ROOT, "cgroup2", MountFlags::empty(), None).context("mounting cgroup2")?;
    }
    write("cgroup.subtree_control", "+cpuset")?;
    let group = format!("cpu{cpu}");
    fs::create_dir(Path::new(ROOT).join(&group)).with_context(|| group.clone())?;
    if whom == "alone" {
        write(&format!("{group}/cgroup.type"), "threaded")?;
    }
    write(&format!("{group}/cpuset.cpus"), cpu)?;
    let partition = format!("{group}/cpuset.cpus.partition");
    write(&partition, "root")?;
    let state = fs::read_to_string(Path::new(ROOT).join(&partition))?;
    if state.trim() != "root" {
        bail!("{partition} is `{}`", state.trim());
    }
    if whom == "together" {
        write(&format!("{group}/cgroup.procs"), "0")?;
    }
    let error = Command::new(format!("/bin/{program}")).args(rest).exec();
    Err(error).with_context(|| format!("starting `{program}`"))
}

fn write(file: &str, text: &str) -> Result<()> {
    fs::write(Path::new(ROOT).join(file), text).with_context(|| format!("`{text}` to {file}"))
}
