//! A look at the CPUs before the command starts: a short `vmnoise osnoise` on those that it may use.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::Value;
use vmnoise_tracer::host::Host;

/// What was taken from one CPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QuietCpu {
    /// Its number.
    pub cpu: u64,
    /// What was taken, in percent of the time polled.
    pub noise_percent: Option<f64>,
    /// The longest gap, in ns.
    pub max_gap_ns: Option<u64>,
    /// Who took most of it.
    pub most_by: Option<String>,
}

/// Polls all CPUs that this process may use.
///
/// # Errors
/// If the CPUs cannot be polled.
pub fn look(duration_ns: u64) -> Result<Vec<QuietCpu>> {
    let cpus = Host::here()
        .allowed_cpus()
        .context("reading which CPUs may be used")?;
    let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
    let polled = Command::new("/proc/self/exe")
        .args(["osnoise", "-q", "--format", "json", "-c", &cpus.join(",")])
        .args(["-d", &format!("{}ms", duration_ns / 1_000_000)])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .stdout(Stdio::piped())
        .output()
        .context("polling the CPUs")?;
    if !polled.status.success() {
        bail!(
            "the CPUs cannot be polled before the command starts: leave --preflight out, or see `vmnoise doctor`"
        );
    }
    let summary: Value =
        serde_json::from_slice(&polled.stdout).context("reading what was polled")?;
    let cpus = summary["cpus"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    Ok(cpus.iter().map(read).collect())
}

fn read(cpu: &Value) -> QuietCpu {
    QuietCpu {
        cpu: cpu["cpu"].as_u64().unwrap_or_default(),
        noise_percent: cpu["noise_percent"].as_f64(),
        max_gap_ns: cpu["max_gap_ns"].as_u64(),
        most_by: cpu["sources"][0]["name"].as_str().map(str::to_owned),
    }
}
