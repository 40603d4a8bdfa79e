//! `cargo bench -p vmnoise-testbed --bench start_and_bpf_cost`: time from the start of vmnoise to
//! its first measured gap, and cost of its BPF programs per event.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use anyhow::{Context, Result};
use serde_json::Value;
use vmnoise_events::Event;
use vmnoise_recording::RecordingReader;
use vmnoise_testbed::VmnoiseRun;
use vmnoise_workload::tsc;

const ROUNDS: usize = 5;

fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("vmnoise-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let recording = folder.join("start.vmn");
    println!(
        "{:>22} {:>10} {:>12} {:>12}",
        "start to first gap ms", "BPF runs", "ns per run", "% of a CPU"
    );
    for _ in 0..ROUNDS {
        let start_tsc = tsc::now();
        let path = recording.to_str().context("a path that is not UTF-8")?;
        let summary = VmnoiseRun::microvm(1, &["--duration", "2s", "-o", path])?.summary()?;
        let mut reader = RecordingReader::open(&recording)?;
        let tsc_hz = reader.facts().clock.tsc_hz;
        let mut first_tsc = None;
        reader.for_each(&mut |event| {
            if let Event::Gap(gap) = event {
                first_tsc.get_or_insert(gap.start_tsc);
            }
        })?;
        let to_first = first_tsc
            .context("no gap in 2 s")?
            .saturating_sub(start_tsc);
        let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        let runs = number(&summary["own_cost"]["bpf_runs"]);
        let bpf_ns = number(&summary["own_cost"]["bpf_ns"]);
        println!(
            "{:>22.0} {:>10} {:>12.0} {:>12.4}",
            to_first as f64 * 1e3 / tsc_hz as f64,
            runs,
            bpf_ns / runs,
            bpf_ns / 2e9 * 100.0,
        );
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
