//! `cargo bench -p vmnoise-testbed --bench gaps_beside_oslat`: compares the gaps on one CPU that
//! oslat (rt-tests) and the microVM find, in alternating runs.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use vmnoise_testbed::VmnoiseRun;

const ROUNDS: usize = 3;
const SECONDS: u64 = 5;
/// oslat counts in buckets of 1 us. Its first bucket contains values that are no gaps.
const THRESHOLD_US: u64 = 2;

fn main() -> Result<()> {
    let cpu = 1;
    println!("gaps of at least {THRESHOLD_US} us on CPU {cpu} in {SECONDS} s, alternating");
    println!("{:>8} {:>10} {:>12}", "", "gaps", "max us");
    for _ in 0..ROUNDS {
        let (gaps, max_us) = oslat(cpu)?;
        println!("{:>8} {gaps:>10} {max_us:>12.1}", "oslat");
        let (gaps, max_us) = microvm(cpu)?;
        println!("{:>8} {gaps:>10} {max_us:>12.1}", "microvm");
    }
    Ok(())
}

fn microvm(cpu: u32) -> Result<(u64, f64)> {
    let duration = format!("{SECONDS}s");
    let threshold = format!("{THRESHOLD_US}us");
    let arguments = ["--duration", &duration, "--threshold", &threshold];
    let summary = VmnoiseRun::microvm(cpu, &arguments)?.summary()?;
    let cpu = &summary["cpus"][0];
    let number = |key: &str| cpu[key].as_u64().with_context(|| key.to_owned());
    Ok((number("gaps")?, number("max_gap_ns")? as f64 / 1e3))
}

fn oslat(cpu: u32) -> Result<(u64, f64)> {
    let file = std::env::temp_dir().join(format!("vmnoise-oslat-{}.json", std::process::id()));
    let output = Command::new("oslat")
        .args([
            "--cpu-list",
            &cpu.to_string(),
            "--duration",
            &SECONDS.to_string(),
        ])
        .args(["--bucket-size", "1024"])
        .arg(format!("--json={}", file.display()))
        .output()
        .context("starting oslat (package rt-tests)")?;
    ensure!(
        output.status.success(),
        "oslat: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let result: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
    std::fs::remove_file(&file)?;
    let thread = &result["thread"]["0"];
    let histogram = thread["histogram"]
        .as_object()
        .context("oslat printed no histogram")?;
    let gaps = histogram
        .iter()
        .filter(|(us, _)| us.parse::<u64>().is_ok_and(|us| us >= THRESHOLD_US))
        .filter_map(|(_, count)| count.as_u64())
        .sum();
    Ok((gaps, thread["max"].as_f64().unwrap_or(f64::NAN)))
}
