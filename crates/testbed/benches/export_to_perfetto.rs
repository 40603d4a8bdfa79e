//! `cargo bench -p vmnoise-testbed --bench export_to_perfetto`: events per second of `vmnoise
//! export` with a generated recording of 10 million events. It exports to a timeline and to tables.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

mod generated;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use generated::{EVENTS, generate};
use vmnoise_testbed::binary;

fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("vmnoise-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let recording = folder.join("generated.vmn");
    generate(&recording)?;
    for to in ["--perfetto", "--parquet", "--csv"] {
        export(&recording, to, &folder.join("out"))?;
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

fn export(recording: &Path, to: &str, out: &Path) -> Result<()> {
    for _ in 0..3 {
        let start = Instant::now();
        let status = Command::new(binary())
            .args(["export", "--host", "generated"])
            .arg(recording)
            .arg(to)
            .arg(out)
            .status()
            .context("starting vmnoise")?;
        let elapsed_s = start.elapsed().as_secs_f64();
        ensure!(status.success(), "vmnoise export: {status}");
        println!(
            "{to:>12} {EVENTS:>10} events in {elapsed_s:>6.2} s: {:.2} million/s",
            EVENTS as f64 / elapsed_s / 1e6
        );
        match out.is_dir() {
            true => std::fs::remove_dir_all(out)?,
            false => std::fs::remove_file(out)?,
        }
    }
    Ok(())
}
