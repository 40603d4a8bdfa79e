//! Definition of the command line, from which clap makes the parser, the help and the errors.

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
use vmnoise_console::status::UsageError;
use vmnoise_console::{as_rtla, called_as};
use vmnoise_render::format::Format;
use vmnoise_render::frame;
use vmnoise_serve_arguments::{DumpArguments, ServeArguments};

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
pub use shared::{SharedArguments, request};
pub use timerlat::{
    DmaLatencyLimit, TIMERLAT_TRACE_FILE, TimerlatArguments, TimerlatCommon, TimerlatMode,
    TimerlatTopArguments,
};
pub use tune_timer::TuneTimerArguments;

const EXAMPLES: &str = "\
Examples:
  vmnoise microvm --duration 10s          time that this host takes from a VM, and who took it
  vmnoise microvm -c 3 -o run.vmn         the same on CPU 3, recorded to a file
  vmnoise osnoise -d 10s                  time taken from each CPU of this machine
  vmnoise timerlat -d 10s                 how late periodic tasks wake up, and why
  vmnoise exits -d 10s                    every exit of the VMs on this host, by reason
  vmnoise serve                           how long each VM waited and for whom, for Prometheus
  vmnoise dump --last 1m -o late.vmn      the last minute that `serve` kept, as a recording
  vmnoise explain run.vmn                 the summary of a recording
  vmnoise explain guest.rec host.rec      who on the host took the time that the guest lost
  vmnoise report run.vmn -o report.html   the summary as a page with charts
  vmnoise compare before.vmn after.vmn    which figures differ, and by how much
  vmnoise check run.vmn --max 40us        whether the run keeps this limit, and how certain that is
  vmnoise schedule run.vmn --tasks t.toml whether these tasks meet their deadlines
  vmnoise audit run.vmn                   settings that made noise, and how to change them
  vmnoise tune-timer --goal 20us          the halt polling that keeps guest timers within 20 us
  vmnoise scale node.vmn --step 1ms       time that up to a million waiting ranks lose
  vmnoise run -- ./bench                  whether too much time was taken from a command
  vmnoise export *.vmn --parquet fleet    tables for DuckDB, polars and Spark
  vmnoise doctor                          which probes work on this machine

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
    /// Measure the time that this host takes from a virtual machine, and name who took it
    #[command(after_help = frame::keys())]
    Microvm(Later<MicrovmArguments>),
    /// Measure the time taken from this machine's CPUs, as rtla osnoise does, on any kernel
    #[command(after_help = frame::keys())]
    Osnoise(Later<OsnoiseArguments>),
    /// Measure how late periodic tasks wake up, as rtla timerlat and cyclictest do, and why
    #[command(after_help = frame::keys())]
    Timerlat(Later<TimerlatArguments>),
    /// Count every exit of every VM on this host, and show where the time went
    #[command(after_help = frame::keys())]
    Exits(Later<ExitsArguments>),
    /// Export, for each VM, how long its vCPUs waited and for whom (Prometheus)
    Serve(ServeArguments),
    /// Write a recording of the last minutes, which a running `vmnoise serve` kept
    Dump(DumpArguments),
    /// Print the summary of a recording, or join a guest's recording with its host's
    Explain(Later<ExplainArguments>),
    /// Write recordings as one page for a browser: charts, tables, and who took the time
    Report(Later<ReportArguments>),
    /// Compare recordings, and show which figures differ
    Compare(Later<CompareArguments>),
    /// Judge whether a recording keeps a budget: PASS, WARN, FAIL or CANNOT TELL
    Check(Later<CheckArguments>),
    /// Compute the least CPU time left in any window, and whether tasks meet their deadlines
    Schedule(Later<ScheduleArguments>),
    /// Find settings of this machine that make noise, ranked by the time they took
    Audit(Later<AuditArguments>),
    /// Measure guest timers for each halt polling setting, and name the cheapest for a goal
    TuneTimer(Later<TuneTimerArguments>),
    /// Predict how noise slows a parallel program whose ranks wait for the slowest
    Scale(Later<ScaleArguments>),
    /// Run a command, and judge whether too much time was taken from it, and by whom
    Run(Later<RunArguments>),
    /// Convert recordings to Perfetto, Parquet, CSV, HdrHistogram, flame graphs and more
    Export(Later<ExportArguments>),
    /// Show which probes work on this machine, and how to enable the others
    Doctor(Later<DoctorArguments>),
    /// Write the manual, one page for each command
    Man(Later<ManArguments>),
    /// Print the script that lets a shell complete commands, options and values
    Completions(Later<CompletionsArguments>),
    /// Command line of a link named `cyclictest`; vmnoise itself has no such subcommand
    #[command(skip)]
    Cyclictest(Box<CyclictestArguments>),
}

/// `vmnoise doctor`: tries every probe and its fallbacks.
#[derive(Debug, Args)]
pub struct DoctorArguments {
    /// Print the result in this format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Error for `rtla hwnoise`, which vmnoise does not provide.
const NO_HWNOISE: &str = "hwnoise: this tool needs interrupts off, which user space cannot do; the column HW of `rtla osnoise` counts gaps without any interrupt, NMI, softirq or thread, and `rtla osnoise trace` lists them";

/// Parses a command line, whose first word is the program's name, in the syntax of the program
/// that was called: vmnoise, rtla or cyclictest.
///
/// # Errors
/// The error of clap, or a [`UsageError`].
pub fn parse(line: impl IntoIterator<Item = OsString>) -> Result<Command> {
    let line: Vec<OsString> = line.into_iter().collect();
    if called_as::is_cyclictest() {
        return Ok(Command::Cyclictest(Box::new(cyclictest::parse(line)?)));
    }
    if as_rtla::has_hwnoise() && line.get(1).is_some_and(|word| word == "hwnoise") {
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
