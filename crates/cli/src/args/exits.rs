//! `vmnoise exits [top|hist|trace]` on the command line.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use vmnoise_events::FeedDetail;
use vmnoise_feed::FeedAddress;
use vmnoise_render::exits::hist::ExitsHistOptions;
use vmnoise_render::format::Format;
use vmnoise_render::frame;
use vmnoise_rights::account::{self, Account};

use super::times::{duration, noise};

/// `vmnoise exits`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ExitsArguments {
    #[command(subcommand)]
    pub mode: Option<ExitsMode>,
    /// List the VMs of this host and their vCPUs, and count nothing
    #[arg(long)]
    pub list: bool,
    #[command(flatten)]
    pub top: ExitsTopArguments,
}

#[derive(Debug, Subcommand)]
pub enum ExitsMode {
    /// Print tables by vCPU and by reason, and on a terminal a live frame (default)
    #[command(after_help = frame::keys())]
    Top(ExitsTopArguments),
    /// Print a histogram of exit lengths
    Hist(ExitsHistArguments),
    /// Print each exit as a line, below the host's work during this exit
    Trace(ExitsTraceArguments),
}

/// Options of `top`, `hist` and `trace`.
#[derive(Debug, Args)]
pub struct ExitsCommon {
    /// Count only this VM: its name, its VMM's process id, or `all`
    #[arg(long, value_name = "VM", default_value = "all")]
    pub vm: String,
    /// Count only these vCPUs, such as 0,2-3 [default: all]
    #[arg(long, value_name = "LIST")]
    pub vcpu: Option<String>,
    /// Count only these exit reasons, such as cpuid,io [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub reason: Vec<String>,
    /// Count for this long [default: until Ctrl-C]
    ///
    /// Times take a unit: ns, us, ms, s, m, h or d. Without one, --duration is in seconds and
    /// --threshold in microseconds.
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<u64>,
    /// List only exits with at least this much noise, but count all exits
    ///
    /// The noise of an exit is its length without the guest's own halts.
    #[arg(short = 'T', long, value_name = "TIME", value_parser = noise)]
    pub threshold: Option<u64>,
    /// Draw timelines of this many exits with the most noise
    #[arg(long, value_name = "N")]
    pub timeline: Option<usize>,
    /// Record all events to this file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Measure as this user; only files and BPF are opened as root
    #[arg(long, value_name = "NAME", value_parser = account::parse)]
    pub user: Option<Account>,
    /// Send a guest live figures of its own exits, over this socket
    ///
    /// A socket of its VMM: unix:PATH (a virtio-serial port), vsock:PATH or vsock:PATH:PORT. May be
    /// given once for each VM.
    #[arg(long, value_name = "SOCKET")]
    pub feed: Vec<FeedAddress>,
    /// Send guests this much detail
    ///
    /// counts: the number of exits and where their time went. reasons: the same for each exit
    /// reason. full: also the names of this host's tasks and interrupts.
    #[arg(long, value_name = "DETAIL", default_value = "counts", requires = "feed", value_parser = detail_parser())]
    pub feed_detail: FeedDetail,
}

fn detail_parser() -> impl TypedValueParser<Value = FeedDetail> {
    PossibleValuesParser::new(FeedDetail::ALL.map(FeedDetail::name)).map(|name| {
        let found = FeedDetail::ALL
            .into_iter()
            .find(|detail| detail.name() == name);
        found.expect("clap lets only these names through")
    })
}

impl ExitsCommon {
    /// Returns whether an option needs the exits one by one. The mode `trace` always needs them.
    pub fn reports_exits(&self) -> bool {
        let names = !self.feed.is_empty() && self.feed_detail == FeedDetail::Full;
        self.timeline.is_some() || self.output.is_some() || names
    }
}

/// `vmnoise exits top`.
#[derive(Debug, Args)]
pub struct ExitsTopArguments {
    #[command(flatten)]
    pub common: ExitsCommon,
    /// Print only the result at the end
    #[arg(short, long)]
    pub quiet: bool,
    /// Print the result in this format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// `vmnoise exits hist`.
#[derive(Debug, Args)]
pub struct ExitsHistArguments {
    #[command(flatten)]
    pub common: ExitsCommon,
    #[command(flatten)]
    pub histogram: ExitsHistOptions,
    /// Print the result in this format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// `vmnoise exits trace`.
#[derive(Debug, Args)]
pub struct ExitsTraceArguments {
    #[command(flatten)]
    pub common: ExitsCommon,
}
