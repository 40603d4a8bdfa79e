//! The command line of `vmnoise explain`.

use std::path::PathBuf;

use clap::Args;
use vmnoise_render::format::Format;

use super::listed::top;
use super::times::threshold;

/// `vmnoise explain`: one recording to explain, or a guest's and its host's to join.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// Recording to explain, made with `-o`
    pub recording: PathBuf,
    /// Recording of the guest's host, made meanwhile with `vmnoise exits -o`
    ///
    /// This recording shows who on the host took the time that the guest lost.
    pub host: Option<PathBuf>,
    /// Rank culprits of gaps at least this long [default: all gaps]
    ///
    /// Needs HOST. In a recording of `timerlat`, the threshold selects latencies. Without a unit,
    /// the time is in microseconds.
    #[arg(short = 'T', long, value_name = "TIME", value_parser = threshold, requires = "host")]
    pub threshold: Option<u64>,
    /// Draw this many of the longest gaps or latencies (needs HOST)
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = top(), requires = "host")]
    pub top: usize,
    /// Accept only this VM as the guest: its name, or its VMM's process id
    ///
    /// Needs HOST. The recordings must still prove that this VM is the guest.
    #[arg(long, value_name = "VM", requires = "host")]
    pub vm: Option<String>,
    /// Print the result in this format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Print the recording line by line, as the mode `trace` does live
    #[arg(long, conflicts_with_all = ["format", "host"])]
    pub trace: bool,
}
