//! `soak SECONDS` measures that long with `vmnoise osnoise` and then `vmnoise microvm`,
//! half of it each, and fails where memory goes on growing or anything is lost.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use vmnoise_labs::Run;
use vmnoise_labs::footprint::resident_kb;
use vmnoise_labs::judge::assert_budgets_add_up;

/// Growth that is no leak: late first touches of what is there.
const GROWTH_KB: u64 = 1024;
/// Some kernels hide switches of some tasks: those that are unpaired do not count.
const LOSSES: [&str; 4] = ["ring_full", "recursion", "mailbox_full", "undecodable"];

fn main() -> Result<()> {
    let length: u64 = match std::env::args().nth(1) {
        Some(seconds) => seconds.parse().context("usage: soak SECONDS")?,
        None => bail!("usage: soak SECONDS"),
    };
    for command in ["osnoise", "microvm"] {
        soak(command, Duration::from_secs(length) / 2)?;
    }
    Ok(())
}

/// Memory of the first half is that of a program that still meets new tasks and gaps.
fn soak(command: &str, length: Duration) -> Result<()> {
    let duration = format!("{}s", length.as_secs());
    let run = Run::start(&[command, "-c", "1", "--format", "json", "-d", &duration])?;
    let begin = Instant::now();
    let (mut settled_kb, mut most_kb) = (None, 0);
    while begin.elapsed() + Duration::from_secs(2) < length {
        std::thread::sleep(Duration::from_secs(1));
        let now_kb = resident_kb(run.pid())?;
        if begin.elapsed() > length / 2 {
            settled_kb.get_or_insert(now_kb);
            most_kb = most_kb.max(now_kb);
        }
    }
    let settled_kb = settled_kb.context("too short to tell: soak for 20 seconds or more")?;
    let summary = run.summary()?;
    assert_budgets_add_up(&summary);
    let gaps = &summary["cpus"][0]["gaps"];
    println!(
        "{command}: {duration}, {gaps} gaps, {settled_kb} kB resident at half time, at most {most_kb} kB after, losses {}",
        summary["losses"]
    );
    for kind in LOSSES {
        let lost = summary["losses"][kind].as_u64();
        ensure!(lost == Some(0), "{command}: {kind} is {lost:?}");
    }
    ensure!(
        most_kb <= settled_kb + GROWTH_KB,
        "{command}: memory grew by {} kB in the second half",
        most_kb - settled_kb
    );
    ensure!(summary["finish_reason"] == Value::from("duration"));
    Ok(())
}
