//! Cost of exits: the table and the JSON document of `vmnoise microvm --exercise`.

use anyhow::Result;
use serde::Serialize;
use vmnoise_console::units::to_ns;
use vmnoise_events::{HostFacts, Policy};
use vmnoise_workload::microvm::exercise::{
    Exercise, ExerciseResult, ExitHandler, KvmCounts, Spread,
};

use super::{json, table, write};
use crate::format::Format;

/// Options that the user gave.
#[derive(Debug, Serialize)]
pub struct ExerciseOptions {
    /// Kind of exit that the vCPUs cause repeatedly.
    pub exercise: Exercise,
    /// CPUs; on each CPU one vCPU runs.
    pub cpus: Vec<u32>,
    /// Duration in nanoseconds.
    pub duration_ns: u64,
    /// Scheduling policy of the vCPU threads.
    pub priority: Option<Policy>,
}

/// JSON document `vmnoise.exercise/1`.
#[derive(Debug, Serialize)]
pub struct ExerciseDocument<'a> {
    schema: &'static str,
    tool_version: &'static str,
    kernel: &'a str,
    hypervisor: Option<&'a str>,
    started_at: String,
    options: ExerciseOptions,
    tsc_hz: u64,
    expected: ExitHandler,
    cpus: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    cpu: u32,
    count: u64,
    handled: Option<ExitHandler>,
    exit_tsc: Option<Spread>,
    exit_ns: Option<Spread>,
    runtime_ns: u64,
    vmm_exits: u64,
    kvm_runs: u64,
    kvm_stat: KvmCounts,
}

impl<'a> ExerciseDocument<'a> {
    /// Creates the document from the results of all CPUs.
    pub fn new(
        host: &'a HostFacts,
        started_at: String,
        options: ExerciseOptions,
        tsc_hz: u64,
        rows: &[ExerciseResult],
    ) -> ExerciseDocument<'a> {
        ExerciseDocument {
            schema: "vmnoise.exercise/1",
            tool_version: env!("CARGO_PKG_VERSION"),
            kernel: &host.kernel,
            hypervisor: host.hypervisor.as_deref(),
            started_at,
            expected: options.exercise.kind(),
            options,
            tsc_hz,
            cpus: rows.iter().map(|row| Row::new(row, tsc_hz)).collect(),
        }
    }
}

impl Row {
    fn new(row: &ExerciseResult, tsc_hz: u64) -> Row {
        let ns = |cycles| to_ns(cycles, tsc_hz);
        Row {
            cpu: row.cpu,
            count: row.count,
            handled: row.kind(),
            exit_tsc: row.exit_tsc,
            exit_ns: row.exit_tsc.map(|spread| spread.map(ns)),
            runtime_ns: ns(row.runtime_tsc),
            vmm_exits: row.vmm_exits,
            kvm_runs: row.kvm_runs,
            kvm_stat: row.kvm,
        }
    }
}

/// Prints the result.
///
/// # Errors
/// If stdout cannot be written.
pub fn print(document: &ExerciseDocument<'_>, format: Format) -> Result<()> {
    match format {
        Format::Text => write(text(document).as_bytes()),
        Format::Json => {
            let mut out = Vec::new();
            json::write(&mut out, document)?;
            write(&out)
        }
    }
}

fn text(document: &ExerciseDocument<'_>) -> String {
    let cpus = table::of(&document.cpus, |it| {
        it.count("CPU", |row| u64::from(row.cpu))
            .figure("kind", |row| row.handled.map_or("-", word).into())
            .count("count", |row| row.count)
            .count("min", |row| row.exit_tsc.map(|it| it.min))
            .count("mean", |row| row.exit_tsc.map(|it| it.mean))
            .count("p99", |row| row.exit_tsc.map(|it| it.p99))
            .count("max", |row| row.exit_tsc.map(|it| it.max))
            .count("min ns", |row| row.exit_ns.map(|it| it.min))
            .count("mean ns", |row| row.exit_ns.map(|it| it.mean))
            .count("p99 ns", |row| row.exit_ns.map(|it| it.p99))
            .count("to VMM", |row| row.vmm_exits)
            .count("KVM exits", |row| row.kvm_stat.exits)
            .count("for IRQs", |row| row.kvm_stat.irq_exits)
    });
    let expected = match document.options.exercise.kind() {
        ExitHandler::Light => "light exits, which KVM answers",
        ExitHandler::Heavy => "heavy exits, which the VMM answers",
        ExitHandler::None => "no exit",
    };
    format!(
        "{}: {expected}; cycles at {} Hz, one reading of the clock included\n\n{cpus}",
        document.options.exercise.name(),
        document.tsc_hz,
    )
}

fn word(kind: ExitHandler) -> &'static str {
    match kind {
        ExitHandler::Light => "light",
        ExitHandler::Heavy => "heavy",
        ExitHandler::None => "none",
    }
}
