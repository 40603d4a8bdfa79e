//! The options of `vmnoise run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use vmnoise_judge::fitness::FitnessLimit;
use vmnoise_render::format::RunFormat;

use super::fit::fit_limit;
use super::times::duration;

const EXAMPLES: &str = "\
Examples:
  vmnoise run -- make -j8
  vmnoise run --fit 'noise<0.5%,max<2ms' --strict -- ./bench
  vmnoise run --retry 3 --format json -o noise.json -- ./bench
  vmnoise run -o noise.txt -- hyperfine -N ./bench

Exit status: the command's own; 128 plus the signal's number, if a signal ended it.
With --strict, if the command returned 0: 4 unfit, 3 cannot tell.
Of vmnoise itself: 1 error, 126 the command cannot be run, 127 there is no such command, 129 usage";

/// `vmnoise run`: a command, and the time that its runs may lose.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArguments {
    /// Check the CPUs for this long before the command (s if no unit)
    ///
    /// The check measures gaps, and whether each CPU works at a steady rate.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub preflight: Option<u64>,
    /// Call a run fit if it is below these limits, such as noise<1%,max<2ms
    ///
    /// `noise` is all time taken, in percent of the run. `max` is the longest single time taken.
    #[arg(
        long,
        value_name = "LIMITS",
        value_delimiter = ',',
        default_value = "noise<1%",
        value_parser = fit_limit
    )]
    pub fit: Vec<FitnessLimit>,
    /// Repeat an unfit run up to this many times
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub retry: u32,
    /// Exit with status 4 if the last run is unfit, 3 if it cannot tell
    #[arg(long)]
    pub strict: bool,
    /// Print the result in this format
    #[arg(long, value_enum, default_value_t = RunFormat::Text)]
    pub format: RunFormat,
    /// Write the result to this file instead of stderr
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Command to run, with its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}
