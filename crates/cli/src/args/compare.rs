//! The options of `vmnoise compare`.

use std::path::PathBuf;

use clap::Args;

use super::condition::Condition;
use crate::output::format::CompareFormat;

/// `vmnoise compare`: the first recording, and what the others have of it.
#[derive(Debug, Args)]
pub struct CompareArguments {
    /// Recordings made with `-o`: of gaps (`microvm`, `osnoise`), of `timerlat` or of `exits`; each is
    /// compared with the first
    #[arg(required_unless_present = "before")]
    pub recordings: Vec<PathBuf>,
    /// Recordings of several runs before a change: with --after, two groups are compared, run by run
    #[arg(long, value_name = "RECORDING", num_args = 1.., requires = "after", conflicts_with = "recordings")]
    pub before: Vec<PathBuf>,
    /// Recordings of several runs after it
    #[arg(long, value_name = "RECORDING", num_args = 1.., requires = "before")]
    pub after: Vec<PathBuf>,
    /// End with status 2 if this is true of a recording: `p99.9>20us`, `steal>0.1%`, `noise>=1%`,
    /// `gaps>100`; of timerlat `user.max>100us`, of exits `io.p99>50us`. It is tested on every recording but the first, or on the first if it is the only
    /// one; of groups on every one of --after. May be given several times
    #[arg(long, value_name = "CONDITION", value_parser = Condition::parse)]
    pub fail_if: Vec<Condition>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = CompareFormat::Text)]
    pub format: CompareFormat,
}
