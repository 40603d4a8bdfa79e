//! Machine that a run measures, and placement of the tool's own threads on it.

use std::time::Duration;

use anyhow::{Context, Result};
use vmnoise_console::say;
use vmnoise_console::status::UsageError;
use vmnoise_events::{
    ClockFacts, ClockSource, HostFacts, MeasuringCommand, ProbeStatus, RunFacts, RunOptions,
    Witnesses,
};
use vmnoise_host::{Host, cpu_list};
use vmnoise_workload::cgroup::Cgroup;
use vmnoise_workload::{thread, tsc};

use super::rank;

/// Time for which the TSC is compared with CLOCK_MONOTONIC before the run.
const TSC_CALIBRATION: Duration = Duration::from_millis(50);

/// Machine that a command runs on, read once.
#[derive(Debug)]
pub struct LocalMachine {
    here: Host,
    /// Facts about the machine.
    pub facts: HostFacts,
}

impl LocalMachine {
    /// Reads the machine.
    pub fn read() -> Result<LocalMachine> {
        let here = Host::here();
        let facts = here.facts().context("reading the facts of this machine")?;
        Ok(LocalMachine { here, facts })
    }

    /// Returns the access to /proc and /sys of the machine.
    pub fn here(&self) -> &Host {
        &self.here
    }

    /// Parses the user's list of CPUs. Checks that the machine has these CPUs and that this process
    /// may use them.
    pub fn cpus(&self, list: &str) -> Result<Vec<u32>> {
        self.cpus_among(list, &self.facts.allowed_cpus)
    }

    /// Returns the CPUs to measure: the listed ones, or else all CPUs that the measuring threads
    /// may use in their control group.
    pub fn cpus_of(&self, list: Option<&str>, cgroup: Option<&Cgroup>) -> Result<Vec<u32>> {
        let allowed = match cgroup.and_then(Cgroup::cpus) {
            Some(list) => cpu_list::parse(&list)?,
            None => self.facts.allowed_cpus.clone(),
        };
        match list {
            Some(list) => self.cpus_among(list, &allowed),
            None => Ok(allowed),
        }
    }

    fn cpus_among(&self, list: &str, allowed: &[u32]) -> Result<Vec<u32>> {
        let cpus = cpu_list::parse(list).map_err(|error| UsageError(error.to_string()))?;
        self.here
            .check_cpus(&cpus, allowed)
            .map_err(|error| UsageError(error.to_string()))?;
        Ok(cpus)
    }

    /// Returns the facts of a run that begins now and uses the machine's own clock.
    pub fn facts_of_run(
        &self,
        workload: MeasuringCommand,
        options: RunOptions,
        tsc_hz: u64,
        witnesses: Witnesses,
        probe_statuses: Vec<ProbeStatus>,
    ) -> RunFacts {
        let source = match self.facts.clocksource.as_str() {
            "tsc" => ClockSource::Tsc,
            _ => ClockSource::UnstableTsc,
        };
        RunFacts {
            tool_version: env!("CARGO_PKG_VERSION").into(),
            workload,
            started_at: jiff::Timestamp::now().to_string().into(),
            rank: rank::rank(|variable| std::env::var(variable).ok()),
            options,
            host: self.facts.clone(),
            clock: ClockFacts::own(source, tsc_hz),
            witnesses,
            probe_statuses,
            shares_cpu: false,
            rdtsc_cycles: tsc::rdtsc_cycles(),
        }
    }

    /// Moves the tool's own threads to the CPUs of `housekeeping`, or else off the measured CPUs.
    /// Threads that start later inherit the placement. Returns whether the threads share a CPU with
    /// the measurement, and prints a warning if so.
    pub fn keep_off(&self, measured: &[u32], housekeeping: Option<&[u32]>) -> Result<bool> {
        let is_measured = |cpu: &u32| measured.contains(cpu);
        let allowed = self.facts.allowed_cpus.iter().copied();
        let others = match housekeeping {
            Some(cpus) => cpus.to_vec(),
            None => allowed.filter(|cpu| !is_measured(cpu)).collect(),
        };
        let shares_cpu = others.is_empty() || others.iter().any(is_measured);
        if !others.is_empty() {
            thread::pin(&others).context("moving the tool's own threads off the measured CPUs")?;
        }
        if shares_cpu {
            say::say(format_args!(
                "no CPU is left for the tool's own threads: they run on measured CPUs, and are part of the noise"
            ));
        }
        Ok(shares_cpu)
    }
}

/// Returns the frequency of the TSC in Hz.
pub fn tsc_hz() -> u64 {
    tsc::calibrate_hz(TSC_CALIBRATION)
}
