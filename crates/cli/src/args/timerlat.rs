//! `vmnoise timerlat [top|hist|trace]` on the command line, in rtla's letters; the formats
//! of cyclictest have long names, because its letters clash with those.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use vmnoise_events::Policy;

use super::Shared;
use super::priority;
use super::times::{MS, threshold, within};
use crate::args::unsupported_options::UnsupportedTimerOptions;
use crate::feed::receiver::FeedFrom;
use crate::frame;
use crate::output::format::LatencyFormat;
use crate::output::timerlat::exports::Exports;
use crate::output::timerlat::hist::Buckets;
use crate::output::timerlat::top::Asked;
use crate::run::at_stop::{AskedAtStop, StackFormat};
use crate::units::Bare;

/// The default of rtla.
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
    /// A table at the end, and on a terminal a live frame until then (the default)
    #[command(after_help = frame::keys())]
    Top(TimerlatTopArguments),
    /// A histogram of the latencies
    Hist(TimerlatHistArguments),
    /// Every noise and every wake-up as lines, in the kernel's own formats
    Trace(TimerlatTraceArguments),
}

/// What `rtla timerlat` and `vmnoise timerlat` both understand, by the same letters.
#[derive(Debug, Args)]
pub struct TimerlatCommon {
    #[command(flatten)]
    pub shared: Shared,
    /// From one wake-up to the next, 50us to 1s; a number alone is in microseconds
    #[arg(short, long, value_name = "TIME", default_value = "1ms", value_parser = timer_period)]
    pub period: u64,
    /// Takes back a --period before it, as in rtla
    #[arg(long, hide = true, overrides_with = "period")]
    pub no_period: bool,
    /// Policy of the tasks: o:NICE, f:PRIORITY, r:PRIORITY or d:RUNTIME:PERIOD
    #[arg(short = 'P', long, value_name = "POLICY", default_value = "f:95", value_parser = priority::parse)]
    pub priority: Policy,
    /// Stop when a timer's interrupt is at least this late, and exit with status 2; a number
    /// alone is in microseconds
    #[arg(short, long, value_name = "TIME", value_parser = threshold)]
    pub irq: Option<u64>,
    /// Stop when a task is at least this late, in user space or before, and exit with status
    /// 2; a number alone is in microseconds
    #[arg(short = 'T', long, value_name = "TIME", value_parser = threshold)]
    pub thread: Option<u64>,
    /// Settings to catch one latency: stop when an interrupt or a task is this late, and save the
    /// trace as --trace does
    #[arg(short, long, value_name = "TIME", value_parser = threshold, conflicts_with_all = ["irq", "thread"])]
    pub auto: Option<u64>,
    /// If what stopped the run was so late, print the kernel's stack that the timer's interrupt found;
    /// a number alone is in microseconds
    #[arg(short, long, value_name = "TIME", value_parser = threshold, conflicts_with = "no_trace")]
    pub stack: Option<u64>,
    /// What to print of frames of that stack that lie in no function known by name
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub stack_format: StackFormat,
    /// Print which task had each CPU of this machine when the run was stopped
    #[arg(long, alias = "dump-task", conflicts_with = "no_trace")]
    pub dump_tasks: bool,
    /// Leave out the analysis of what stopped the run
    #[arg(long)]
    pub no_aa: bool,
    /// When stopped, save the last lines of the trace to this file [default name: timerlat_trace.txt]
    #[arg(short, long, value_name = "FILE", num_args = 0..=1, default_missing_value = TIMERLAT_TRACE_FILE)]
    pub trace: Option<PathBuf>,
    /// Print nanoseconds
    #[arg(short, long)]
    pub nano: bool,
    /// Accepted as rtla's option; it changes nothing, because tasks always run in user space here
    #[arg(short, long)]
    pub user_threads: bool,
    /// Wake each CPU's task this long after that of the CPU before; a number alone is in
    /// microseconds [default: not aligned]
    #[arg(short = 'A', long, value_name = "TIME", value_parser = alignment)]
    pub aligned: Option<u64>,
    /// Hold idle CPUs to this wake-up latency (/dev/cpu_dma_latency), as cyclictest does; a
    /// number alone is in microseconds, `off` leaves them alone
    #[arg(long, value_name = "TIME", default_value = "0us", value_parser = dma_latency)]
    pub dma_latency: DmaLatency,
    /// Switch off the idle states of measured CPUs that are deeper than this; -1 is all
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-1..=99))]
    pub deepest_idle_state: Option<i32>,
    /// Read the feed of this guest's host from a device, socket or FIFO; auto finds the port
    /// (docs/feed.md), none reads no feed
    #[arg(long, value_name = "PATH", default_value = "auto")]
    pub feed: FeedFrom,
    /// Measure without BPF: how late each wake-up is, but not why
    #[arg(long, conflicts_with = "irq")]
    pub no_trace: bool,
    #[command(flatten)]
    pub unsupported: UnsupportedTimerOptions,
}

impl TimerlatCommon {
    /// What is asked for of the instant at which the run is stopped.
    pub fn at_stop(&self) -> AskedAtStop {
        AskedAtStop {
            stack_from_ns: self.stack,
            format: self.stack_format,
            tasks: self.dump_tasks,
        }
    }

    /// Whether the last lines of the trace may be asked for: when a limit is hit, or at the
    /// end.
    pub fn keeps_trace(&self) -> bool {
        self.irq.or(self.thread).or(self.auto).is_some() || self.shared.ends_with_trace()
    }
}

/// What idle CPUs are held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DmaLatency {
    /// As they are.
    Off,
    /// Microseconds.
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
    /// Stop when an interrupt or a task is this late, and print only the analysis of that; a number
    /// alone is in microseconds
    #[arg(long, value_name = "TIME", value_parser = threshold, conflicts_with_all = ["irq", "thread", "auto", "no_aa", "format"])]
    pub aa_only: Option<u64>,
    /// End when a task has woken up so often, if the duration is not over by then
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub loops: Option<u64>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = LatencyFormat::Text)]
    pub format: LatencyFormat,
    #[command(flatten)]
    pub exports: Exports,
}

impl TimerlatTopArguments {
    /// What the table is to be.
    pub fn asked(&self) -> Asked {
        Asked {
            format: self.format,
            quiet: self.quiet,
            nano: self.common.nano,
            keeps_trace: self.aa_only.is_some() || self.common.keeps_trace(),
            analyzes: !self.common.no_aa,
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
    pub buckets: Buckets,
}

/// `vmnoise timerlat trace`.
#[derive(Debug, Args)]
pub struct TimerlatTraceArguments {
    #[command(flatten)]
    pub common: TimerlatCommon,
    /// Print only the end: what stopped the run, and what it rests on
    #[arg(short, long)]
    pub quiet: bool,
}

fn timer_period(text: &str) -> Result<u64, String> {
    within(text, Bare::Microseconds, 50_000, 1_000 * MS, "50us to 1s")
}

fn alignment(text: &str) -> Result<u64, String> {
    within(text, Bare::Microseconds, 0, 1_000 * MS, "0 to 1s")
}

fn dma_latency(text: &str) -> Result<DmaLatency, String> {
    if text == "off" {
        return Ok(DmaLatency::Off);
    }
    let ns = within(
        text,
        Bare::Microseconds,
        0,
        10 * MS,
        "0 to 10ms, as in rtla",
    )?;
    Ok(DmaLatency::Us(
        i32::try_from(ns / 1_000).unwrap_or(i32::MAX),
    ))
}
