//! The first check of the thesis of VM noise: what lies below this machine is the same
//! for a guest on it as for a thread of its own. Both take turns on one CPU.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::Run;

/// Who measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// `vmnoise microvm`: a guest.
    Guest,
    /// `vmnoise osnoise`: its host.
    Host,
}

impl Side {
    /// The command.
    pub const fn command(self) -> &'static str {
        match self {
            Side::Guest => "microvm",
            Side::Host => "osnoise",
        }
    }
}

/// What one run left to what lies below this machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Residual {
    /// Who.
    pub side: Side,
    /// Time of gaps that this machine's kernel did not take, in microseconds for each
    /// second: the residual, and what a hypervisor's steal clock says of it.
    pub us_per_s: f64,
    /// Gaps without any witness, for each second.
    pub bare_gaps_per_s: f64,
    /// Period of the strongest fingerprint, in microseconds.
    pub period_us: Option<f64>,
    /// What part of the residual has it, in percent.
    pub periodic_percent: Option<f64>,
}

/// Guest and host in turn, `rounds` times for `seconds` each.
///
/// # Errors
/// If a run fails.
pub fn residuals(cpu: u32, rounds: usize, seconds: u64) -> Result<Vec<Residual>> {
    let (cpu, seconds) = (cpu.to_string(), seconds.to_string());
    let mut found = Vec::new();
    for _ in 0..rounds {
        for side in [Side::Guest, Side::Host] {
            let arguments = [side.command(), "--cpus", &cpu, "--duration", &seconds];
            let run = Run::start(&[&arguments[..], &["--format", "json"]].concat())?;
            found.push(Residual::of(side, &run.summary()?).context(side.command())?);
        }
    }
    Ok(found)
}

impl Residual {
    fn of(side: Side, summary: &Value) -> Result<Residual> {
        let cpu = &summary["cpus"][0];
        let seconds = cpu["runtime_ns"].as_f64().context("its runtime")? / 1e9;
        // A guest of this machine has no steal of the machine below among its own.
        let below: &[&str] = match side {
            Side::Guest => &["hw", "hv_or_hw", "unexplained"],
            Side::Host => &["hw", "hv_or_hw", "unexplained", "steal"],
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
