//! Constant facts about this machine, for recordings.

use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use vmnoise_events::{
    ClockFacts, ClockSource, HostFacts, MeasuringCommand, ProbeStatus, RunFacts, RunOptions,
    Witnesses,
};
use vmnoise_host::Host;
use vmnoise_workload::tsc;

/// Time for which the TSC is compared with CLOCK_MONOTONIC at the start.
const CALIBRATE: Duration = Duration::from_millis(50);

#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) host: HostFacts,
    pub(crate) clock: ClockFacts,
    pub(crate) rdtsc_cycles: u64,
}

impl Machine {
    /// Reads the facts, and measures the frequency of the TSC.
    ///
    /// # Errors
    /// If facts that every machine has are missing in /proc or /sys.
    pub(crate) fn read(host: &Host) -> Result<Machine> {
        let host = host.facts().context("reading the facts of this machine")?;
        let source = match host.clocksource.as_str() {
            "tsc" => ClockSource::Tsc,
            _ => ClockSource::UnstableTsc,
        };
        Ok(Machine {
            host,
            clock: ClockFacts::own(source, tsc::calibrate_hz(CALIBRATE)),
            rdtsc_cycles: tsc::rdtsc_cycles(),
        })
    }

    /// Returns the facts of a recording of vCPUs that began at `began`.
    pub(crate) fn facts(
        &self,
        began: Timestamp,
        options: RunOptions,
        witnesses: Witnesses,
        probe_statuses: Vec<ProbeStatus>,
    ) -> RunFacts {
        RunFacts {
            tool_version: env!("CARGO_PKG_VERSION").into(),
            workload: MeasuringCommand::Exits,
            started_at: began.to_string().into(),
            rank: None,
            options: RunOptions {
                period_ns: 1_000_000_000,
                ..options
            },
            host: self.host.clone(),
            clock: self.clock,
            witnesses,
            probe_statuses,
            shares_cpu: false,
            rdtsc_cycles: self.rdtsc_cycles,
        }
    }
}
