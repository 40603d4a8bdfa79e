//! The options of `vmnoise run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use vmnoise_judge::fitness::Limit;

use super::fit::fit_limit;
use super::times::duration;
use crate::output::format::RunFormat;

const EXAMPLES: &str = "\
Examples:
  vmnoise run -- make -j8
  vmnoise run --fit 'noise<0.5%,max<2ms' --strict -- ./bench
  vmnoise run --retry 3 --format json -o noise.json -- ./bench
  vmnoise run -o noise.txt -- hyperfine -N ./bench

Exit status: that of the command, 128 and the signal's number where a signal ended it; with --strict, where the command
ended with 0: 4 unfit, 3 cannot tell. 1 error, 126 the command cannot be run, 127 there is no such command, 129 usage";

/// `vmnoise run`: a command, and what its runs may lose.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArguments {
    /// Look at the CPUs for so long before the command starts: for gaps, and for how steadily each works
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub preflight: Option<u64>,
    /// What makes a run fit: `noise` (all that was taken, in percent of the run) and `max` (the longest time taken at one
    /// go) are below these
    #[arg(
        long,
        value_name = "LIMITS",
        value_delimiter = ',',
        default_value = "noise<1%",
        value_parser = fit_limit
    )]
    pub fit: Vec<Limit>,
    /// Repeat a run that is unfit, up to so many times
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub retry: u32,
    /// End with status 4 where the last run is unfit, and 3 where that cannot be told
    #[arg(long)]
    pub strict: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = RunFormat::Text)]
    pub format: RunFormat,
    /// Write the result to this file, not to stderr
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The command, and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}
