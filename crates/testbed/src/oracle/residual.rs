//! The first check of the thesis on VM noise: a guest on this machine loses as much time to the
//! layers below the machine as a thread of the machine itself. Guest and thread run one after the
//! other on one CPU.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::VmnoiseRun;

/// Program that measures the lost time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasuringSide {
    /// `vmnoise microvm`, which measures in a guest.
    Guest,
    /// `vmnoise osnoise`, which measures on the guest's host.
    Host,
}

impl MeasuringSide {
    /// Returns the command of `vmnoise` for this program.
    pub const fn command(self) -> &'static str {
        match self {
            MeasuringSide::Guest => "microvm",
            MeasuringSide::Host => "osnoise",
        }
    }
}

/// Time that layers below this machine took from one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Residual {
    /// Program that measured the run.
    pub side: MeasuringSide,
    /// Time of gaps that this machine's kernel did not take, in microseconds per second. It is the
    /// residual, plus the steal time of the hypervisor below this machine.
    pub us_per_s: f64,
    /// Number of gaps without any cause in this kernel, per second.
    pub bare_gaps_per_s: f64,
    /// Period of the strongest fingerprint, microseconds; `None` if there is none.
    pub period_us: Option<f64>,
    /// Part of the residual that has this period, in percent; `None` if there is none.
    pub periodic_percent: Option<f64>,
}

/// Runs guest and host one after the other, `rounds` times, for `seconds` each. Returns one value
/// per run.
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
        // The shares of a guest do not include steal time of the machine below.
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
