//! The command line: one definition feeds parsing, help and errors.

mod audit;
pub mod budget;
mod check;
mod compare;
pub mod condition;
mod cyclictest;
mod exercise_name;
mod exits;
mod explain;
mod export;
mod fit;
mod later;
#[cfg(test)]
mod like_rtla;
mod limit;
mod listed;
mod manual;
mod microvm;
mod osnoise;
pub mod priority;
pub mod reason_names;
mod report;
mod run;
mod scale;
mod schedule;
mod shared;
mod timerlat;
mod times;
mod tune_timer;
mod unsupported_options;

use std::ffi::OsString;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use vmnoise_serve_arguments::{DumpArguments, ServeArguments};

use crate::called_as;
use crate::frame;
use crate::output::format::Format;
use crate::status::UsageError;

pub use audit::AuditArguments;
pub use check::CheckArguments;
pub use compare::CompareArguments;
pub use cyclictest::CyclictestArguments;
pub use exits::{ExitsArguments, ExitsCommon, ExitsMode, ExitsTopArguments};
pub use explain::ExplainArguments;
pub use export::ExportArguments;
pub use later::Later;
pub use manual::{CompletionsArguments, ManArguments};
pub use microvm::MicrovmArguments;
pub use osnoise::{OsnoiseArguments, OsnoiseCommon, OsnoiseMode, OsnoiseTopArguments, TRACE_FILE};
pub use report::ReportArguments;
pub use run::RunArguments;
pub use scale::{CollectiveName, ScaleArguments};
pub use schedule::ScheduleArguments;
pub use shared::Shared;
pub use timerlat::{
    DmaLatency, TIMERLAT_TRACE_FILE, TimerlatArguments, TimerlatCommon, TimerlatMode,
    TimerlatTopArguments,
};
pub use tune_timer::TuneTimerArguments;

const EXAMPLES: &str = "\
Examples:
  vmnoise microvm --duration 10s          what this host takes from a VM, and who took it
  vmnoise microvm -c 3 -o run.vmn         on CPU 3, and recorded
  vmnoise osnoise -d 10s                  what is taken from each CPU of this machine
  vmnoise timerlat -d 10s                 how late periodic tasks wake up, and why
  vmnoise exits -d 10s                    every exit of the VMs on this host, by reason
  vmnoise serve                           what each VM waited for and for whom, for Prometheus
  vmnoise dump --last 1m -o late.vmn      what it knows of the last minute, as a recording
  vmnoise explain run.vmn                 the summary again, from the recording
  vmnoise explain guest.rec host.rec      who on the host took what the guest lost
  vmnoise report run.vmn -o report.html   the summary as a page with charts
  vmnoise compare before.vmn after.vmn    which figures differ, and by how much
  vmnoise check run.vmn --max 40us        whether that is good enough, and how sure it is
  vmnoise schedule run.vmn --tasks t.toml whether tasks keep their deadlines with what was left
  vmnoise audit run.vmn                   which settings of this machine took it, and what to change
  vmnoise tune-timer --goal 20us          which halt polling keeps guests' timers that punctual
  vmnoise scale node.vmn --step 1ms       what a million ranks that wait for each other lose
  vmnoise run -- ./bench                  whether too much was taken from a command, and by whom
  vmnoise export *.vmn --parquet fleet    tables for DuckDB, polars and Spark
  vmnoise doctor                          what this machine lets vmnoise see

Exit status: 0 ok, 1 error, 2 a limit was hit, 3 this machine cannot, 129 usage";

/// Measures every moment a CPU is taken from a virtual machine, and says who took it.
#[derive(Debug, Parser)]
#[command(name = "vmnoise", version, max_term_width = 100, after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure what this host takes from a virtual machine, and name who took each microsecond
    #[command(after_help = frame::keys())]
    Microvm(Later<MicrovmArguments>),
    /// Measure what is taken from this machine's CPUs, as rtla osnoise does, on any kernel
    #[command(after_help = frame::keys())]
    Osnoise(Later<OsnoiseArguments>),
    /// Measure how late periodic tasks wake up, as rtla timerlat and cyclictest do, and why
    #[command(after_help = frame::keys())]
    Timerlat(Later<TimerlatArguments>),
    /// Count every exit of every VM on this host, and say where its time went
    #[command(after_help = frame::keys())]
    Exits(Later<ExitsArguments>),
    /// Keep the books of every vCPU of this host for as long as it is up, and serve them as metrics
    Serve(ServeArguments),
    /// Write what all vCPUs lost in the last minutes into a recording: `vmnoise serve` knows
    Dump(DumpArguments),
    /// Print the summary of a recording, or join a guest's recording with its host's
    Explain(Later<ExplainArguments>),
    /// Write recordings as one page for a browser: charts, tables, and who took the time
    Report(Later<ReportArguments>),
    /// Put recordings side by side, and say where they differ
    Compare(Later<CompareArguments>),
    /// Say whether a recording keeps a budget: PASS, WARN, FAIL or CANNOT TELL
    Check(Later<CheckArguments>),
    /// Say what a CPU left to its tasks in any window, and whether they keep their deadlines with it
    Schedule(Later<ScheduleArguments>),
    /// Look for settings of this machine that make noise, ranked by what they took of a recording
    Audit(Later<AuditArguments>),
    /// Measure what halt polling gives and costs the timers of a guest, and name the setting for a goal
    TuneTimer(Later<TuneTimerArguments>),
    /// Predict what becomes of a program whose ranks wait for the slowest, and who is to blame
    Scale(Later<ScaleArguments>),
    /// Run a command, and say whether too much was taken from it, and by whom
    Run(Later<RunArguments>),
    /// Convert recordings for other programs: Perfetto, Parquet, CSV, HdrHistogram, flame graphs
    Export(Later<ExportArguments>),
    /// Show what this machine lets vmnoise see, and what would let it see more
    Doctor(Later<DoctorArguments>),
    /// Write the manual, one page for each command
    Man(Later<ManArguments>),
    /// Print what a shell needs to complete commands, options and their values
    Completions(Later<CompletionsArguments>),
    /// What a link named `cyclictest` is asked: no command line names it
    #[command(skip)]
    Cyclictest(Box<CyclictestArguments>),
}

/// `vmnoise doctor`: tries every probe and its fallback chain.
#[derive(Debug, Args)]
pub struct DoctorArguments {
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// What stands for rtla's third tool.
const NO_HWNOISE: &str = "hwnoise: it measures with interrupts off, which user space cannot; the column HW of `rtla osnoise` counts gaps in which no interrupt, NMI, soft interrupt or thread was seen, and `rtla osnoise trace` names each";

/// Reads a command line, the program's name first, in the words of the program that is called.
///
/// # Errors
/// What clap says of it, or a [`UsageError`].
pub fn parse(line: impl IntoIterator<Item = OsString>) -> Result<Command> {
    let line: Vec<OsString> = line.into_iter().collect();
    if called_as::is_cyclictest() {
        return Ok(Command::Cyclictest(Box::new(cyclictest::parse(line)?)));
    }
    if called_as::is_rtla() && line.get(1).is_some_and(|word| word == "hwnoise") {
        return Err(UsageError(NO_HWNOISE.into()).into());
    }
    Ok(Arguments::try_parse_from(line)?.command)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn definition_is_sound() {
        Arguments::command().debug_assert();
    }
}
