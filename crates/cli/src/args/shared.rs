//! What every measurement by threads of our own understands, in rtla's letters.

use std::path::PathBuf;

use clap::Args;

use super::times::{duration, warm_up};
use crate::args::unsupported_options::UnsupportedOptions;
use crate::run::Run;
use crate::run::reaction::action::{self, Action};
use vmnoise_rights::account::{self, Account};

/// Where, how long, and what to do with the result.
#[derive(Debug, Args)]
pub struct Shared {
    /// CPUs to measure, such as 1,3-5 [default: every CPU this process may use]
    #[arg(short, long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// CPUs for the tool's own threads [default: those that are not measured]
    #[arg(short = 'H', long, value_name = "LIST")]
    pub house_keeping: Option<String>,
    /// How long to measure [default: until Ctrl-C]; a number alone is in seconds
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<u64>,
    /// Control group (cgroup2) of the measuring threads [default: that of vmnoise]
    #[arg(short = 'C', long, value_name = "CGROUP", num_args = 0..=1)]
    pub cgroup: Option<Option<String>>,
    /// Measure this long before the result begins; a number alone is in seconds
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = warm_up)]
    pub warm_up: u64,
    /// What to do when a limit is hit, in the order given: trace[,file=FILE],
    /// signal,num=N,pid=PID|parent, shell,command=COMMAND, dump[,port=FILE], or continue
    #[arg(long, value_name = "ACTION", value_parser = action::parse)]
    pub on_threshold: Vec<Action>,
    /// What to do after the result; takes what --on-threshold takes
    #[arg(long, value_name = "ACTION", value_parser = action::parse)]
    pub on_end: Vec<Action>,
    /// Measure as this user; only files and BPF programs are opened with the rights of root
    #[arg(long, value_name = "NAME", value_parser = account::parse)]
    pub user: Option<Account>,
    #[command(flatten)]
    pub unsupported: UnsupportedOptions,
    /// Record everything that is seen to this file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

impl Shared {
    /// What is asked of the run, all but its trace.
    pub fn run(&self) -> Run {
        Run {
            output: self.output.clone(),
            on_threshold: self.on_threshold.clone(),
            on_end: self.on_end.clone(),
            user: self.user.clone(),
            ..Run::default()
        }
    }

    /// Whether the last lines of the trace may be asked for at the end.
    pub fn ends_with_trace(&self) -> bool {
        let saves = |action: &Action| matches!(action, Action::Trace(_));
        self.on_end.iter().any(saves)
    }
}
