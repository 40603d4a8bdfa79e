//! The command line of `vmnoise osnoise`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use vmnoise_engine::feed::receiver::FeedFrom;
use vmnoise_events::Policy;
use vmnoise_render::format::Format;
use vmnoise_render::frame;
use vmnoise_render::osnoise_hist::NoiseBuckets;

use super::SharedArguments;
use super::priority;
use super::times::{osnoise_period, osnoise_runtime, threshold};

/// Default name of the file with the saved trace, as in rtla.
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
    /// Print a table at the end, and on a terminal a live frame (default)
    #[command(after_help = frame::keys())]
    Top(OsnoiseTopArguments),
    /// Print a histogram of gap lengths
    Hist(OsnoiseHistArguments),
    /// Print every noise and every gap as a line, in the kernel's formats
    Trace(OsnoiseTraceArguments),
}

/// Options of all modes of `vmnoise osnoise`. Options of `rtla osnoise` keep their letters.
#[derive(Debug, Args)]
pub struct OsnoiseCommon {
    #[command(flatten)]
    pub shared: SharedArguments,
    /// Measure the time taken from this thread while runnable; poll nothing
    ///
    /// The id of a thread; a process id means its first thread. The thread may move between CPUs.
    #[arg(long, value_name = "PID", conflicts_with_all = ["comm", "cpus", "runtime", "priority", "cgroup", "warm_up"])]
    pub pid: Option<u32>,
    /// Like --pid, for each thread of this name; they must not share a CPU
    #[arg(long, value_name = "NAME", conflicts_with_all = ["cpus", "runtime", "priority", "cgroup", "warm_up"])]
    pub comm: Option<String>,
    /// Divide the run into periods of this length
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = osnoise_period)]
    pub period: u64,
    /// Cancel an earlier --period, as in rtla
    #[arg(long, hide = true, overrides_with = "period")]
    pub no_period: bool,
    /// Poll for this long in each period [default: all of it]
    #[arg(short, long, value_name = "TIME", value_parser = osnoise_runtime)]
    pub runtime: Option<u64>,
    /// Count gaps of at least this length as noise
    #[arg(short = 'T', long, value_name = "TIME", default_value = "1us", value_parser = threshold)]
    pub threshold: u64,
    /// Stop at the first gap of at least this length, with exit status 2
    ///
    /// The budget of this gap is printed first.
    #[arg(short, long, value_name = "TIME", value_parser = threshold)]
    pub stop: Option<u64>,
    /// Stop when the gaps of one period add up to this length
    #[arg(short = 'S', long, value_name = "TIME", value_parser = threshold)]
    pub stop_total: Option<u64>,
    /// Stop at the first gap of at least this length, and save the trace
    ///
    /// The same as --stop with --trace and the default --threshold.
    #[arg(short, long, value_name = "TIME", value_parser = threshold, conflicts_with_all = ["stop", "threshold"])]
    pub auto: Option<u64>,
    /// On stop, save the last trace lines [default file: osnoise_trace.txt]
    #[arg(short, long, value_name = "FILE", num_args = 0..=1, default_missing_value = TRACE_FILE)]
    pub trace: Option<PathBuf>,
    /// Set the policy of polling threads, such as f:95 [default: inherited]
    ///
    /// o:NICE is SCHED_OTHER, f:PRIORITY is SCHED_FIFO, r:PRIORITY is SCHED_RR and d:RUNTIME:PERIOD
    /// is SCHED_DEADLINE.
    #[arg(short = 'P', long, value_name = "POLICY", value_parser = priority::parse)]
    pub priority: Option<Policy>,
    /// Read the host's feed from this device, socket or FIFO
    ///
    /// `auto` finds the port (docs/feed.md); `none` reads no feed.
    #[arg(long, value_name = "PATH", default_value = "auto")]
    pub feed: FeedFrom,
}

impl OsnoiseCommon {
    /// Returns whether the run must keep its last trace lines, for a limit or for its end.
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
    /// Print the result in this format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Print JSON lines: an object for each period, then one for the run
    #[arg(long, conflicts_with_all = ["format", "quiet"])]
    pub json_lines: bool,
}

/// `vmnoise osnoise hist`.
#[derive(Debug, Args)]
pub struct OsnoiseHistArguments {
    #[command(flatten)]
    pub common: OsnoiseCommon,
    #[command(flatten)]
    pub buckets: NoiseBuckets,
}

/// `vmnoise osnoise trace`.
#[derive(Debug, Args)]
pub struct OsnoiseTraceArguments {
    #[command(flatten)]
    pub common: OsnoiseCommon,
    /// Print only the end: what stopped the run, its probes and losses
    #[arg(short, long)]
    pub quiet: bool,
}
