//! The command line of `vmnoise microvm`.

use std::path::PathBuf;

use clap::Args;
use vmnoise_events::Policy;
use vmnoise_render::format::Format;
use vmnoise_rights::account::{self, Account};
use vmnoise_workload::microvm::exercise::Exercise;

use super::listed::top;
use super::times::{duration, period, threshold, timer_interval};
use super::{exercise_name, priority};

/// `vmnoise microvm`: one microVM on /dev/kvm, one vCPU on each measured CPU.
#[derive(Debug, Args)]
pub struct MicrovmArguments {
    /// Measure these CPUs, such as 1,3-5 [default: the last allowed CPU]
    #[arg(short, long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Measure for this long
    ///
    /// Times take a unit: ns, us, ms, s, m, h or d. Without one, --duration is in seconds and all
    /// others are in microseconds.
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub duration: u64,
    /// Record gaps of at least this length
    #[arg(short = 'T', long, value_name = "TIME", default_value = "1us", value_parser = threshold)]
    pub threshold: u64,
    /// Update the live view at this interval
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = period)]
    pub period: u64,
    /// Set the policy of vCPU threads, such as f:95 [default: inherited]
    ///
    /// o:NICE is SCHED_OTHER, f:PRIORITY is SCHED_FIFO, r:PRIORITY is SCHED_RR and d:RUNTIME:PERIOD
    /// is SCHED_DEADLINE.
    #[arg(short = 'P', long, value_name = "POLICY", value_parser = priority::parse)]
    pub priority: Option<Policy>,
    /// List this many of the longest gaps, with their budgets
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = top())]
    pub top: usize,
    /// Print the result in this format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Record all events to this file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Measure as this user; only files and BPF are opened as root
    #[arg(long, value_name = "NAME", value_parser = account::parse)]
    pub user: Option<Account>,
    /// Stop at the first gap of at least this length, with exit status 2
    ///
    /// The budget of this gap is printed first.
    #[arg(short, long, value_name = "TIME", value_parser = threshold)]
    pub stop: Option<u64>,
    /// Measure without BPF: gaps and steal time, but no culprits
    #[arg(long)]
    pub no_trace: bool,
    /// Time this exit in a loop, instead of measuring noise
    #[arg(long, value_name = "EXIT", value_parser = exercise_name::parser(), conflicts_with_all = ["threshold", "period", "top", "output", "stop", "no_trace"])]
    pub exercise: Option<Exercise>,
    /// Time guest timers set this far ahead, instead of measuring noise
    #[arg(long, value_name = "TIME", value_parser = timer_interval, conflicts_with_all = ["threshold", "period", "top", "output", "user", "stop", "no_trace", "exercise"])]
    pub timer: Option<u64>,
}
