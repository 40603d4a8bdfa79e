//! Options that `osnoise` and `timerlat` share, with rtla's letters.

use std::path::{Path, PathBuf};

use clap::Args;
use vmnoise_engine::RunRequest;
use vmnoise_engine::reaction::action::{self, Action};
use vmnoise_rights::account::{self, Account};

use super::times::{duration, warm_up};
use crate::args::unsupported_options::UnsupportedOptions;

/// CPUs, duration, actions and output of a measurement.
#[derive(Debug, Args)]
pub struct SharedArguments {
    /// Measure these CPUs, such as 1,3-5 [default: all allowed CPUs]
    #[arg(short, long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Run the tool's own threads on these CPUs [default: unmeasured CPUs]
    #[arg(short = 'H', long, value_name = "LIST")]
    pub house_keeping: Option<String>,
    /// Measure for this long [default: until Ctrl-C]
    ///
    /// Times take a unit: ns, us, ms, s, m, h or d. Without one, --duration and --warm-up are in
    /// seconds and all others are in microseconds.
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<u64>,
    /// Put measuring threads into this cgroup (v2) [default: vmnoise's own]
    #[arg(short = 'C', long, value_name = "CGROUP", num_args = 0..=1)]
    pub cgroup: Option<Option<String>>,
    /// Warm up for this long before the result begins
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = warm_up)]
    pub warm_up: u64,
    /// Do this when a limit is hit; several actions run in the given order
    ///
    /// trace[,file=FILE], signal,num=N,pid=PID|parent, shell,command=COMMAND, dump[,port=FILE] or
    /// continue.
    #[arg(long, value_name = "ACTION", value_parser = action::parse)]
    pub on_threshold: Vec<Action>,
    /// Do this after the result; takes the same actions as --on-threshold
    #[arg(long, value_name = "ACTION", value_parser = action::parse)]
    pub on_end: Vec<Action>,
    /// Measure as this user; only files and BPF are opened as root
    #[arg(long, value_name = "NAME", value_parser = account::parse)]
    pub user: Option<Account>,
    #[command(flatten)]
    pub unsupported: UnsupportedOptions,
    /// Record all events to this file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

impl SharedArguments {
    /// Returns the request for the run, without the options of its trace.
    pub fn run(&self) -> RunRequest {
        RunRequest {
            on_threshold: self.on_threshold.clone(),
            on_end: self.on_end.clone(),
            ..request(self.output.clone(), self.user.clone())
        }
    }

    /// Returns whether an action of `--on-end` saves the trace.
    pub fn ends_with_trace(&self) -> bool {
        let saves = |action: &Action| matches!(action, Action::Trace(_));
        self.on_end.iter().any(saves)
    }
}

/// Returns the request for a run with this recording, whose header has the settings of this
/// machine.
pub fn request(output: Option<PathBuf>, user: Option<Account>) -> RunRequest {
    RunRequest {
        output,
        user,
        settings: Some(|| vmnoise_audit::settings(Path::new("/")).ok()),
        ..RunRequest::default()
    }
}
