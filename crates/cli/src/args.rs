//! The command line: one definition feeds parsing, help and errors.

mod compare;
mod exits;
mod export;
mod manual;
mod report;
mod shared;
mod timerlat;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use vmnoise_events::Policy;
use vmnoise_workload::microvm::exercise::Exercise;

use crate::exercise_name;
use crate::frame;
use crate::host_feed::FeedFrom;
use crate::priority;
use crate::units::{Bare, parse_time};

pub use compare::{CompareArguments, CompareFormat};
pub use exits::{
    Columns, ExitsArguments, ExitsCommon, ExitsHistArguments, ExitsMode, ExitsTopArguments,
};
pub use export::ExportArguments;
pub use manual::{CompletionsArguments, ManArguments};
pub use report::ReportArguments;
pub use shared::Shared;
pub use timerlat::{
    DmaLatency, Exports, LatencyFormat, TIMERLAT_TRACE_FILE, TimerlatArguments, TimerlatCommon,
    TimerlatHistArguments, TimerlatMode, TimerlatTopArguments, TimerlatTraceArguments,
};

const EXAMPLES: &str = "\
Examples:
  vmnoise microvm --duration 10s          what a VM on this host would feel, and why
  vmnoise microvm -c 3 -o run.vmn         the same on CPU 3, recorded
  vmnoise osnoise -d 10s                  what is taken from each CPU of this machine
  vmnoise timerlat -d 10s                 how late periodic tasks wake up, and why
  vmnoise exits -d 10s                    every exit of the VMs on this host, by reason
  vmnoise explain run.vmn                 the summary again, from the recording
  vmnoise explain guest.rec host.rec      who on the host took what the guest lost
  vmnoise report run.vmn -o report.html   the same as a page with charts
  vmnoise compare before.vmn after.vmn    which figures differ, and by how much
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
    /// Measure this host as a virtual machine would feel it, and name who took each microsecond
    #[command(after_help = frame::keys())]
    Microvm(MicrovmArguments),
    /// Measure what is taken from this machine's CPUs, as rtla osnoise does, on any kernel
    #[command(after_help = frame::keys())]
    Osnoise(Box<OsnoiseArguments>),
    /// Measure how late periodic tasks wake up, as rtla timerlat and cyclictest do, and why
    #[command(after_help = frame::keys())]
    Timerlat(Box<TimerlatArguments>),
    /// Count every exit of every VM on this host, and say where its time went
    #[command(after_help = frame::keys())]
    Exits(Box<ExitsArguments>),
    /// Print the summary of a recording, or join a guest's with its host's
    Explain(ExplainArguments),
    /// Write recordings as one page for a browser: charts, tables, and who took the time
    Report(ReportArguments),
    /// Put recordings side by side, and say where they differ
    Compare(CompareArguments),
    /// Hand recordings to other programs: Perfetto, Parquet, CSV, rt-tests' JSON
    Export(ExportArguments),
    /// Show what this machine lets vmnoise see, and what would let it see more
    Doctor(DoctorArguments),
    /// Write the manual, one page for each command
    Man(ManArguments),
    /// Print what a shell needs to complete commands, options and their values
    Completions(CompletionsArguments),
}

/// How a result is printed on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// One JSON object and nothing else
    Json,
}

/// `vmnoise microvm`: one microVM on /dev/kvm, one vCPU on each measured CPU.
#[derive(Debug, Args)]
pub struct MicrovmArguments {
    /// CPUs to measure, such as 1,3-5 [default: the last CPU this process may use]
    #[arg(short, long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// How long to measure; a number alone is in seconds
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub duration: u64,
    /// Record gaps of at least this length; a number alone is in microseconds
    #[arg(short = 'T', long, value_name = "TIME", default_value = "1us", value_parser = threshold)]
    pub threshold: u64,
    /// Length of a period of the live view; a number alone is in microseconds
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = period)]
    pub period: u64,
    /// Policy of the vCPU threads: o:NICE, f:PRIORITY, r:PRIORITY or d:RUNTIME:PERIOD [default: as inherited]
    #[arg(short = 'P', long, value_name = "POLICY", value_parser = priority::parse)]
    pub priority: Option<Policy>,
    /// How many of the longest gaps to list with their budgets
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Write everything that was seen to this recording
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// End the run at the first gap of at least this length, print its budget first, and
    /// exit with status 2; a number alone is in microseconds
    #[arg(short, long, value_name = "TIME", value_parser = threshold)]
    pub stop: Option<u64>,
    /// Measure without BPF: gaps and the steal clock, but no witness
    #[arg(long)]
    pub no_trace: bool,
    /// Measure no noise: let the guest make this exit in a loop, and print what each takes
    #[arg(long, value_name = "EXIT", value_parser = exercise_name::parser(), conflicts_with_all = ["threshold", "period", "top", "output", "stop", "no_trace"])]
    pub exercise: Option<Exercise>,
}

/// `vmnoise osnoise [top|hist|trace]`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct OsnoiseArguments {
    #[command(subcommand)]
    pub mode: Option<OsnoiseMode>,
    #[command(flatten)]
    pub top: OsnoiseTopArguments,
}

#[derive(Debug, Subcommand)]
pub enum OsnoiseMode {
    /// A table at the end, and on a terminal a live frame until then (the default)
    #[command(after_help = frame::keys())]
    Top(OsnoiseTopArguments),
    /// A histogram of the gaps' lengths
    Hist(OsnoiseHistArguments),
    /// Every noise and every gap as a line, in the kernel's own formats
    Trace(OsnoiseTraceArguments),
}

/// What `rtla osnoise` and `vmnoise osnoise` both understand, by the same letters.
#[derive(Debug, Args)]
pub struct OsnoiseCommon {
    #[command(flatten)]
    pub shared: Shared,
    /// Poll nothing: measure what is taken from this thread (its id, or that of a process with
    /// one thread) while it is runnable, wherever it runs
    #[arg(long, value_name = "PID", conflicts_with_all = ["comm", "cpus", "runtime", "priority", "cgroup", "warm_up"])]
    pub pid: Option<u32>,
    /// The same for each thread of this name; no two of them may share a CPU
    #[arg(long, value_name = "NAME", conflicts_with_all = ["cpus", "runtime", "priority", "cgroup", "warm_up"])]
    pub comm: Option<String>,
    /// Length of a period; a number alone is in microseconds
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = osnoise_period)]
    pub period: u64,
    /// How long of each period to poll [default: all of it]; a number alone is in microseconds
    #[arg(short, long, value_name = "TIME", value_parser = osnoise_runtime)]
    pub runtime: Option<u64>,
    /// A gap of at least this length is noise; a number alone is in microseconds
    #[arg(short = 'T', long, value_name = "TIME", default_value = "1us", value_parser = threshold)]
    pub threshold: u64,
    /// Stop at the first gap of at least this length, print its budget first, and exit with
    /// status 2; a number alone is in microseconds
    #[arg(short, long, value_name = "TIME", value_parser = threshold)]
    pub stop: Option<u64>,
    /// Stop when the gaps of one period add up to this; a number alone is in microseconds
    #[arg(short = 'S', long, value_name = "TIME", value_parser = threshold)]
    pub stop_total: Option<u64>,
    /// Sensible settings to catch a gap of this length: stop at it, with a threshold of 1 us,
    /// and save the trace as --trace does
    #[arg(short, long, value_name = "TIME", value_parser = threshold, conflicts_with_all = ["stop", "threshold"])]
    pub auto: Option<u64>,
    /// When stopped, save the last lines of the trace to this file [default name: osnoise_trace.txt]
    #[arg(short, long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = TRACE_FILE)]
    pub trace: Option<PathBuf>,
    /// Policy of the polling threads: o:NICE, f:PRIORITY, r:PRIORITY or d:RUNTIME:PERIOD [default: as inherited]
    #[arg(short = 'P', long, value_name = "POLICY", value_parser = priority::parse)]
    pub priority: Option<Policy>,
    /// Where the host of this guest tells what it took: a device, socket or FIFO; auto finds
    /// the feed's port (docs/feed.md), none reads nothing
    #[arg(long, value_name = "PATH", default_value = "auto")]
    pub feed: FeedFrom,
}

impl OsnoiseCommon {
    /// Whether the last lines of the trace may be asked for: when noise hits a limit, or
    /// at the end.
    pub fn keeps_trace(&self) -> bool {
        self.stop.or(self.auto).or(self.stop_total).is_some() || self.shared.ends_with_trace()
    }
}

/// `vmnoise osnoise top`.
#[derive(Debug, Args)]
pub struct OsnoiseTopArguments {
    #[command(flatten)]
    pub common: OsnoiseCommon,
    /// Print only the table at the end
    #[arg(short, long)]
    pub quiet: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Print one JSON object a line: one for each period, then that of the run
    #[arg(long, conflicts_with_all = ["format", "quiet"])]
    pub json_lines: bool,
}

/// What a histogram prints beside its buckets, in rtla's words.
#[derive(Debug, Args)]
pub struct HistFrame {
    /// Print empty buckets too
    #[arg(long)]
    pub with_zeros: bool,
    /// Leave out the lines before the histogram
    #[arg(long)]
    pub no_header: bool,
    /// Leave out the lines after the histogram
    #[arg(long)]
    pub no_summary: bool,
}

/// `vmnoise osnoise hist`.
#[derive(Debug, Args)]
pub struct OsnoiseHistArguments {
    #[command(flatten)]
    pub common: OsnoiseCommon,
    /// Width of a bucket in microseconds
    #[arg(short, long, value_name = "US", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=999_999))]
    pub bucket_size: u64,
    /// Number of buckets
    #[arg(short = 'E', long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u64).range(10..=9_999_999))]
    pub entries: u64,
    #[command(flatten)]
    pub frame: HistFrame,
    /// Leave out the column of bucket limits
    #[arg(long, requires = "with_zeros")]
    pub no_index: bool,
}

/// `vmnoise osnoise trace`.
#[derive(Debug, Args)]
pub struct OsnoiseTraceArguments {
    #[command(flatten)]
    pub common: OsnoiseCommon,
    /// Print only the end: what stopped the run, and what it rests on
    #[arg(short, long)]
    pub quiet: bool,
}

/// `vmnoise explain`: the same path from events to output, fed from a file, or from a guest's
/// and its host's.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// A recording made with `-o`
    pub recording: PathBuf,
    /// What the host of that guest recorded meanwhile with `vmnoise exits -o`: says who on the
    /// host took what the guest lost
    pub host: Option<PathBuf>,
    /// With HOST: rank who took the time of gaps, or latencies, of at least this length [default:
    /// of all that were recorded]; a number alone is in microseconds
    #[arg(short = 'T', long, value_name = "TIME", value_parser = threshold, requires = "host")]
    pub threshold: Option<u64>,
    /// With HOST: how many of the longest gaps, or latencies, to draw
    #[arg(long, value_name = "N", default_value_t = 3, requires = "host")]
    pub top: usize,
    /// With HOST: the guest is this VM, by its name or the process id of its VMM [default:
    /// whichever the data show it to be]
    #[arg(long, value_name = "VM", requires = "host")]
    pub vm: Option<String>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Print it line by line instead, as `osnoise trace`, `timerlat trace` and `exits trace` do
    #[arg(long, conflicts_with_all = ["format", "host"])]
    pub trace: bool,
}

/// `vmnoise doctor`: tries every rung of every ladder.
#[derive(Debug, Args)]
pub struct DoctorArguments {
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// The default of rtla.
pub const TRACE_FILE: &str = "osnoise_trace.txt";
const MS: u64 = 1_000_000;
const DAY: u64 = 86_400_000_000_000;

fn within(text: &str, bare: Bare, min_ns: u64, max_ns: u64, range: &str) -> Result<u64, String> {
    let ns = parse_time(text, bare)?;
    if (min_ns..=max_ns).contains(&ns) {
        Ok(ns)
    } else {
        Err(format!("{text} is outside {range}"))
    }
}

fn duration(text: &str) -> Result<u64, String> {
    within(text, Bare::Seconds, 10 * MS, 365 * DAY, "10ms to 365d")
}

fn threshold(text: &str) -> Result<u64, String> {
    // Below 100 ns every step of the polling loop would be a gap.
    within(text, Bare::Microseconds, 100, 60_000 * MS, "100ns to 60s")
}

fn noise(text: &str) -> Result<u64, String> {
    within(text, Bare::Microseconds, 0, 60_000 * MS, "0 to 60s")
}

fn period(text: &str) -> Result<u64, String> {
    within(
        text,
        Bare::Microseconds,
        100 * MS,
        DAY,
        "100ms to 1d (a number alone is in us)",
    )
}

fn osnoise_period(text: &str) -> Result<u64, String> {
    within(
        text,
        Bare::Microseconds,
        1_000,
        10_000 * MS,
        "1us to 10s, as in rtla",
    )
}

fn osnoise_runtime(text: &str) -> Result<u64, String> {
    within(
        text,
        Bare::Microseconds,
        100_000,
        10_000 * MS,
        "100us to 10s, as in rtla",
    )
}

fn warm_up(text: &str) -> Result<u64, String> {
    within(text, Bare::Seconds, 0, DAY, "0s to 1d")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn definition_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn threshold_without_unit_is_microseconds() {
        assert_eq!(threshold("5"), Ok(5_000));
        assert!(threshold("10ns").unwrap_err().contains("100ns"));
    }

    #[test]
    fn absurd_durations_are_refused() {
        for text in ["0", "0s", "9999d", "1ns"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
