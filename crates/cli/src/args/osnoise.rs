//! The command line of `vmnoise osnoise`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use vmnoise_events::Policy;

use super::Shared;
use super::priority;
use super::times::{osnoise_period, osnoise_runtime, threshold};
use crate::feed::receiver::FeedFrom;
use crate::frame;
use crate::output::format::Format;
use crate::output::osnoise_hist::Buckets;

/// The default of rtla.
pub const TRACE_FILE: &str = "osnoise_trace.txt";

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
    /// Like --pid, for each thread of this name; no two of them may share a CPU
    #[arg(long, value_name = "NAME", conflicts_with_all = ["cpus", "runtime", "priority", "cgroup", "warm_up"])]
    pub comm: Option<String>,
    /// Length of a period; a number alone is in microseconds
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = osnoise_period)]
    pub period: u64,
    /// Takes back a --period before it, as in rtla
    #[arg(long, hide = true, overrides_with = "period")]
    pub no_period: bool,
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
    /// Catch one gap: stop at the first of this length, with a threshold of 1 us, and
    /// save the trace as --trace does
    #[arg(short, long, value_name = "TIME", value_parser = threshold, conflicts_with_all = ["stop", "threshold"])]
    pub auto: Option<u64>,
    /// When stopped, save the last lines of the trace to this file [default name: osnoise_trace.txt]
    #[arg(short, long, value_name = "FILE", num_args = 0..=1, default_missing_value = TRACE_FILE)]
    pub trace: Option<PathBuf>,
    /// Policy of the polling threads: o:NICE, f:PRIORITY, r:PRIORITY or d:RUNTIME:PERIOD [default: as inherited]
    #[arg(short = 'P', long, value_name = "POLICY", value_parser = priority::parse)]
    pub priority: Option<Policy>,
    /// Read the feed of this guest's host from a device, socket or FIFO; auto finds the port
    /// (docs/feed.md), none reads no feed
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

/// `vmnoise osnoise hist`.
#[derive(Debug, Args)]
pub struct OsnoiseHistArguments {
    #[command(flatten)]
    pub common: OsnoiseCommon,
    #[command(flatten)]
    pub buckets: Buckets,
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
