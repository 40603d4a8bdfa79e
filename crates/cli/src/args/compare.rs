//! The options of `vmnoise compare`.

use std::path::PathBuf;

use clap::Args;
use vmnoise_render::format::CompareFormat;

use super::condition::FigureCondition;

/// `vmnoise compare`: recordings to compare with the first one, or two groups of them.
#[derive(Debug, Args)]
pub struct CompareArguments {
    /// Recordings made with `-o`; each is compared with the first
    ///
    /// All recordings must be of one kind: gaps (`microvm`, `osnoise`), `timerlat` or `exits`.
    #[arg(required_unless_present = "before")]
    pub recordings: Vec<PathBuf>,
    /// Compare this group of recordings, from before a change, with --after
    #[arg(long, value_name = "RECORDING", num_args = 1.., requires = "after", conflicts_with = "recordings")]
    pub before: Vec<PathBuf>,
    /// Compare --before with this group of recordings, from after the change
    #[arg(long, value_name = "RECORDING", num_args = 1.., requires = "before")]
    pub after: Vec<PathBuf>,
    /// Exit with status 2 if a recording meets this condition: p99.9>20us
    ///
    /// For gaps: `p99.9>20us`, `steal>0.1%`, `noise>=1%`, `gaps>100`. For timerlat:
    /// `user.max>100us`. For exits: `io.p99>50us`. May be given several times.
    ///
    /// vmnoise tests every recording except the first. If you name only one, vmnoise tests that
    /// recording. With two groups, vmnoise tests every recording of --after.
    #[arg(long, value_name = "CONDITION", value_parser = FigureCondition::parse)]
    pub fail_if: Vec<FigureCondition>,
    /// Print the result in this format
    #[arg(long, value_enum, default_value_t = CompareFormat::Text)]
    pub format: CompareFormat,
}
