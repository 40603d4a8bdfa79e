//! `vmnoise timerlat [top|hist|trace]` on the command line, in rtla's letters. Options from
//! cyclictest have only long names, because its letters clash with rtla's.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use vmnoise_console::units::Bare;
use vmnoise_engine::at_stop::AskedAtStop;
use vmnoise_engine::feed::receiver::FeedFrom;
use vmnoise_events::Policy;
use vmnoise_render::format::LatencyFormat;
use vmnoise_render::frame;
use vmnoise_render::timerlat::at_stop::StackFormat;
use vmnoise_render::timerlat::exports::Exports;
use vmnoise_render::timerlat::hist::LatencyBuckets;
use vmnoise_render::timerlat::top::TopOptions;

use super::SharedArguments;
use super::priority;
use super::times::{MS, threshold, within};
use crate::args::unsupported_options::UnsupportedTimerOptions;

/// Default name of the file with the saved trace, as in rtla.
pub const TIMERLAT_TRACE_FILE: &str = "timerlat_trace.txt";

/// `vmnoise timerlat`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct TimerlatArguments {
    #[command(subcommand)]
    pub mode: Option<TimerlatMode>,
    #[command(flatten)]
    pub top: TimerlatTopArguments,
}

#[derive(Debug, Subcommand)]
pub enum TimerlatMode {
    /// Print a table at the end, and on a terminal a live frame (default)
    #[command(after_help = frame::keys())]
    Top(TimerlatTopArguments),
    /// Print a histogram of the latencies
    Hist(TimerlatHistArguments),
    /// Print every noise and every wake-up as lines, in the kernel's formats
    Trace(TimerlatTraceArguments),
}

/// Options of all modes of `vmnoise timerlat`. Options of `rtla timerlat` keep their letters.
#[derive(Debug, Args)]
pub struct TimerlatCommon {
    #[command(flatten)]
    pub shared: SharedArguments,
    /// Wake each task at this interval, 50us to 1s
    #[arg(short, long, value_name = "TIME", default_value = "1ms", value_parser = timer_period)]
    pub period: u64,
    /// Cancel an earlier --period, as in rtla
    #[arg(long, hide = true, overrides_with = "period")]
    pub no_period: bool,
    /// Set the policy of the tasks
    ///
    /// o:NICE is SCHED_OTHER, f:PRIORITY is SCHED_FIFO, r:PRIORITY is SCHED_RR and d:RUNTIME:PERIOD
    /// is SCHED_DEADLINE.
    #[arg(short = 'P', long, value_name = "POLICY", default_value = "f:95", value_parser = priority::parse)]
    pub priority: Policy,
    /// Stop if a timer interrupt is at least this late, with exit status 2
    #[arg(short, long, value_name = "TIME", value_parser = threshold)]
    pub irq: Option<u64>,
    /// Stop if a task is at least this late, with exit status 2
    ///
    /// The limit applies to the latency in the kernel and to the latency in user space.
    #[arg(short = 'T', long, value_name = "TIME", value_parser = threshold)]
    pub thread: Option<u64>,
    /// Stop if an interrupt or a task is this late, and save the trace
    ///
    /// The same as --irq and --thread with --trace.
    #[arg(short, long, value_name = "TIME", value_parser = threshold, conflicts_with_all = ["irq", "thread"])]
    pub auto: Option<u64>,
    /// On stop, print the interrupted kernel stack if at least this late
    ///
    /// The stack is from the moment at which the timer interrupt wakes the task.
    #[arg(short, long, value_name = "TIME", value_parser = threshold, conflicts_with = "no_trace")]
    pub stack: Option<u64>,
    /// Choose how to print stack frames outside any known function
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub stack_format: StackFormat,
    /// On stop, print which task ran on each CPU of this machine
    #[arg(long, alias = "dump-task", conflicts_with = "no_trace")]
    pub dump_tasks: bool,
    /// Leave out the analysis of the latency that stopped the run
    #[arg(long)]
    pub no_aa: bool,
    /// On stop, save the last trace lines [default file: timerlat_trace.txt]
    #[arg(short, long, value_name = "FILE", num_args = 0..=1, default_missing_value = TIMERLAT_TRACE_FILE)]
    pub trace: Option<PathBuf>,
    /// Print times in nanoseconds
    #[arg(short, long)]
    pub nano: bool,
    /// Change nothing: tasks always run in user space (option of rtla)
    #[arg(short, long)]
    pub user_threads: bool,
    /// Wake tasks one after another, this far apart [default: not aligned]
    #[arg(short = 'A', long, value_name = "TIME", value_parser = alignment)]
    pub aligned: Option<u64>,
    /// Limit the wake-up latency of idle CPUs; `off` sets no limit
    ///
    /// vmnoise writes the limit to /dev/cpu_dma_latency, as cyclictest does.
    #[arg(long, value_name = "TIME", default_value = "0us", value_parser = dma_latency)]
    pub dma_latency: DmaLatencyLimit,
    /// Disable idle states deeper than this on measured CPUs; -1 is all
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-1..=99))]
    pub deepest_idle_state: Option<i32>,
    /// Read the host's feed from this device, socket or FIFO
    ///
    /// `auto` finds the port (docs/feed.md); `none` reads no feed.
    #[arg(long, value_name = "PATH", default_value = "auto")]
    pub feed: FeedFrom,
    /// Measure without BPF: how late each wake-up is, but not why
    #[arg(long, conflicts_with = "irq")]
    pub no_trace: bool,
    #[command(flatten)]
    pub unsupported: UnsupportedTimerOptions,
}

impl TimerlatCommon {
    /// Returns the details to print about the moment at which a limit stops the run.
    pub fn at_stop(&self) -> AskedAtStop {
        AskedAtStop {
            stack_from_ns: self.stack,
            tasks: self.dump_tasks,
        }
    }

    /// Returns the format of kernel stacks, if the result contains an analysis of the latency that
    /// stopped the run.
    pub fn stacks(&self) -> Option<StackFormat> {
        (!self.no_aa).then_some(self.stack_format)
    }

    /// Returns whether the run must keep its last trace lines, for a limit or for its end.
    pub fn keeps_trace(&self) -> bool {
        self.irq.or(self.thread).or(self.auto).is_some() || self.shared.ends_with_trace()
    }
}

/// Limit for the wake-up latency of idle CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DmaLatencyLimit {
    /// No limit.
    Off,
    /// Limit in microseconds.
    Us(i32),
}

/// `vmnoise timerlat top`.
#[derive(Debug, Args)]
pub struct TimerlatTopArguments {
    #[command(flatten)]
    pub common: TimerlatCommon,
    /// Print only the table at the end
    #[arg(short, long)]
    pub quiet: bool,
    /// Stop if an interrupt or a task is this late; print only its analysis
    #[arg(long, value_name = "TIME", value_parser = threshold, conflicts_with_all = ["irq", "thread", "auto", "no_aa", "format"])]
    pub aa_only: Option<u64>,
    /// End after this many wake-ups of a task, or after --duration
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub loops: Option<u64>,
    /// Print the result in this format
    #[arg(long, value_enum, default_value_t = LatencyFormat::Text)]
    pub format: LatencyFormat,
    #[command(flatten)]
    pub exports: Exports,
}

impl TimerlatTopArguments {
    /// Returns the options of the table.
    pub fn asked(&self) -> TopOptions {
        TopOptions {
            format: self.format,
            quiet: self.quiet,
            nano: self.common.nano,
            keeps_trace: self.aa_only.is_some() || self.common.keeps_trace(),
            stacks: self.common.stacks(),
            aa_only: self.aa_only.is_some(),
            loops: self.loops,
            cyclictest: None,
        }
    }
}

/// `vmnoise timerlat hist`.
#[derive(Debug, Args)]
pub struct TimerlatHistArguments {
    #[command(flatten)]
    pub common: TimerlatCommon,
    #[command(flatten)]
    pub buckets: LatencyBuckets,
}

/// `vmnoise timerlat trace`.
#[derive(Debug, Args)]
pub struct TimerlatTraceArguments {
    #[command(flatten)]
    pub common: TimerlatCommon,
    /// Print only the end: what stopped the run, its probes and losses
    #[arg(short, long)]
    pub quiet: bool,
}

fn timer_period(text: &str) -> Result<u64, String> {
    within(text, Bare::Microseconds, 50_000, 1_000 * MS, "50us to 1s")
}

fn alignment(text: &str) -> Result<u64, String> {
    within(text, Bare::Microseconds, 0, 1_000 * MS, "0 to 1s")
}

fn dma_latency(text: &str) -> Result<DmaLatencyLimit, String> {
    if text == "off" {
        return Ok(DmaLatencyLimit::Off);
    }
    let ns = within(
        text,
        Bare::Microseconds,
        0,
        10 * MS,
        "0 to 10ms, as in rtla",
    )?;
    Ok(DmaLatencyLimit::Us(
        i32::try_from(ns / 1_000).unwrap_or(i32::MAX),
    ))
}
