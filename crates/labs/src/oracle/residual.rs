//! The first check of the thesis on VM noise: a guest on this machine loses the same time to layers
//! below it as a thread of the machine itself. Both take turns on one CPU.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::VmnoiseRun;

/// Measuring program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasuringSide {
    /// `vmnoise microvm`: a guest.
    Guest,
    /// `vmnoise osnoise`: the guest's host.
    Host,
}

impl MeasuringSide {
    /// Returns the command.
    pub const fn command(self) -> &'static str {
        match self {
            MeasuringSide::Guest => "microvm",
            MeasuringSide::Host => "osnoise",
        }
    }
}

/// Time of one run that layers below this machine took.
#[derive(Debug, Clone, PartialEq)]
pub struct Residual {
    /// Measuring program.
    pub side: MeasuringSide,
    /// Time of gaps that this machine's kernel did not take, in microseconds per second: the
    /// residual, and the steal time of the hypervisor below.
    pub us_per_s: f64,
    /// Gaps without any cause in this kernel, per second.
    pub bare_gaps_per_s: f64,
    /// Period of the strongest fingerprint, in microseconds.
    pub period_us: Option<f64>,
    /// Part of the residual with that period, in percent.
    pub periodic_percent: Option<f64>,
}

/// Runs guest and host in turn, `rounds` times for `seconds` each.
///
/// # Errors
/// If a run fails.
pub fn residuals(cpu: u32, rounds: usize, seconds: u64) -> Result<Vec<Residual>> {
    let (cpu, seconds) = (cpu.to_string(), seconds.to_string());
    let mut found = Vec::new();
    for _ in 0..rounds {
        for side in [MeasuringSide::Guest, MeasuringSide::Host] {
            let arguments = [side.command(), "--cpus", &cpu, "--duration", &seconds];
            let run = VmnoiseRun::start(&[&arguments[..], &["--format", "json"]].concat())?;
            found.push(Residual::of(side, &run.summary()?).context(side.command())?);
        }
    }
    Ok(found)
}

impl Residual {
    fn of(side: MeasuringSide, summary: &Value) -> Result<Residual> {
        let cpu = &summary["cpus"][0];
        let seconds = cpu["runtime_ns"].as_f64().context("its runtime")? / 1e9;
        // A guest's own shares do not include steal time of the machine below.
        let below: &[&str] = match side {
            MeasuringSide::Guest => &["hw", "hv_or_hw", "unexplained"],
            MeasuringSide::Host => &["hw", "hv_or_hw", "unexplained", "steal"],
        };
        let below_ns: u64 = below
            .iter()
            .filter_map(|share| cpu["shares_ns"][share].as_u64())
            .sum();
        let bare_gaps = cpu["bare_gaps"].as_f64().context("its bare gaps")?;
        let periodic = &summary["periodic"][0];
        Ok(Residual {
            side,
            us_per_s: below_ns as f64 / 1e3 / seconds,
            bare_gaps_per_s: bare_gaps / seconds,
            period_us: periodic["period_ns"].as_f64().map(|ns| ns / 1e3),
            periodic_percent: periodic["share_of_residual"]
                .as_f64()
                .map(|part| part * 1e2),
        })
    }
}
