//! The command line of `vmnoise microvm`.

use std::path::PathBuf;

use clap::Args;
use vmnoise_events::Policy;
use vmnoise_workload::microvm::exercise::Exercise;

use super::listed::top;
use super::times::{duration, period, threshold, timer_interval};
use super::{exercise_name, priority};
use crate::output::format::Format;
use vmnoise_rights::account::{self, Account};

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
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = top())]
    pub top: usize,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Record everything that is seen to this file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Measure as this user; only files and BPF programs are opened with the rights of root
    #[arg(long, value_name = "NAME", value_parser = account::parse)]
    pub user: Option<Account>,
    /// End the run at the first gap of at least this length, print its budget first, and
    /// exit with status 2; a number alone is in microseconds
    #[arg(short, long, value_name = "TIME", value_parser = threshold)]
    pub stop: Option<u64>,
    /// Measure without BPF: gaps and the steal clock, but not who took the time
    #[arg(long)]
    pub no_trace: bool,
    /// Measure no noise: let the guest make this exit in a loop, and print what each takes
    #[arg(long, value_name = "EXIT", value_parser = exercise_name::parser(), conflicts_with_all = ["threshold", "period", "top", "output", "stop", "no_trace"])]
    pub exercise: Option<Exercise>,
    /// Measure no noise: let the guest arm its timer so far ahead, and print how late it comes; a
    /// number alone is in microseconds
    #[arg(long, value_name = "TIME", value_parser = timer_interval, conflicts_with_all = ["threshold", "period", "top", "output", "user", "stop", "no_trace", "exercise"])]
    pub timer: Option<u64>,
}
