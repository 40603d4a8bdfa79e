//! `soak SECONDS COMMAND…` runs each of these `vmnoise` commands for an equal part of SECONDS. It
//! fails if the memory of a command keeps growing, or if events are lost.
#![forbid(unsafe_code)]

mod serve;

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use vmnoise_testbed::VmnoiseRun;
use vmnoise_testbed::footprint::resident_kb;
use vmnoise_testbed::judge::assert_budgets_add_up;

/// Allowed growth of resident memory in KiB. It covers pages that are touched late.
const GROWTH_KB: u64 = 1024;
/// Kinds of losses that must not happen. Unpaired switches are allowed, because some kernels hide
/// switches of some tasks.
const LOSSES: [&str; 4] = ["ring_full", "recursion", "mailbox_full", "undecodable"];

fn main() -> Result<()> {
    let usage = "usage: soak SECONDS COMMAND…";
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (seconds, commands) = arguments.split_first().context(usage)?;
    ensure!(!commands.is_empty(), usage);
    let seconds: u64 = seconds.parse().context(usage)?;
    let length = Duration::from_secs(seconds) / commands.len() as u32;
    for command in commands {
        match command.as_str() {
            "serve" => serve::soak(length)?,
            command => soak(command, length)?,
        }
    }
    Ok(())
}

/// Resident memory of a program in KiB. Growth in the first half of the time does not count,
/// because the program still finds new tasks and gaps then.
#[derive(Debug, Default)]
struct Memory {
    settled_kb: Option<u64>,
    most_kb: u64,
}

impl Memory {
    fn is_now(&mut self, kb: u64, has_settled: bool) {
        if has_settled {
            self.settled_kb.get_or_insert(kb);
            self.most_kb = self.most_kb.max(kb);
        }
    }

    fn ensure_flat(&self, command: &str, growth_kb: u64) -> Result<()> {
        let settled_kb = self
            .settled_kb
            .context("too short to tell: soak for 20 seconds or more")?;
        ensure!(
            self.most_kb <= settled_kb + growth_kb,
            "{command}: memory grew by {} kB in the second half",
            self.most_kb - settled_kb
        );
        Ok(())
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settled_kb = self.settled_kb.unwrap_or_default();
        write!(
            formatter,
            "{settled_kb} kB resident at half time, at most {} kB after",
            self.most_kb
        )
    }
}

fn soak(command: &str, length: Duration) -> Result<()> {
    let duration = format!("{}s", length.as_secs());
    let run = VmnoiseRun::start(&[command, "-c", "1", "--format", "json", "-d", &duration])?;
    let begin = Instant::now();
    let mut memory = Memory::default();
    while begin.elapsed() + Duration::from_secs(2) < length {
        std::thread::sleep(Duration::from_secs(1));
        memory.is_now(resident_kb(run.pid())?, begin.elapsed() > length / 2);
    }
    let summary = run.summary()?;
    assert_budgets_add_up(&summary);
    let gaps = &summary["cpus"][0]["gaps"];
    println!(
        "{command}: {duration}, {gaps} gaps, {memory}, losses {}",
        summary["losses"]
    );
    for kind in LOSSES {
        let lost = summary["losses"][kind].as_u64();
        ensure!(lost == Some(0), "{command}: {kind} is {lost:?}");
    }
    memory.ensure_flat(command, GROWTH_KB)?;
    ensure!(summary["finish_reason"] == Value::from("duration"));
    Ok(())
}
