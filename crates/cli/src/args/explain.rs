//! The command line of `vmnoise explain`.

use std::path::PathBuf;

use clap::Args;

use super::listed::top;
use super::times::threshold;
use crate::output::format::Format;

/// `vmnoise explain`: the same path from events to output, fed from a file, or from a guest's
/// and its host's.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// A recording made with `-o`
    pub recording: PathBuf,
    /// What the host of that guest recorded meanwhile with `vmnoise exits -o`: says who on the
    /// host took what the guest lost
    pub host: Option<PathBuf>,
    /// With HOST: rank who took the time of gaps, or latencies, of at least this length [default:
    /// of all that were recorded]; a number alone is in microseconds
    #[arg(short = 'T', long, value_name = "TIME", value_parser = threshold, requires = "host")]
    pub threshold: Option<u64>,
    /// With HOST: how many of the longest gaps, or latencies, to draw
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = top(), requires = "host")]
    pub top: usize,
    /// With HOST: only this VM may be the guest, by its name or the process id of its VMM; the
    /// recordings still have to prove it
    #[arg(long, value_name = "VM", requires = "host")]
    pub vm: Option<String>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Print it line by line instead, as `osnoise trace`, `timerlat trace` and `exits trace` do
    #[arg(long, conflicts_with_all = ["format", "host"])]
    pub trace: bool,
}
