//! `vmnoise exits [top|hist|trace]` on the command line.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use vmnoise_events::FeedDetail;
use vmnoise_feed::FeedAddress;

use super::times::{duration, noise};
use crate::frame;
use crate::output::exits::hist::Histogram;
use crate::output::format::Format;
use vmnoise_rights::account::{self, Account};

/// `vmnoise exits`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ExitsArguments {
    #[command(subcommand)]
    pub mode: Option<ExitsMode>,
    /// List the VMs of this host with their vCPUs, and end
    #[arg(long)]
    pub list: bool,
    #[command(flatten)]
    pub top: ExitsTopArguments,
}

#[derive(Debug, Subcommand)]
pub enum ExitsMode {
    /// Tables by vCPU and by reason at the end, and on a terminal a live frame until then (the
    /// default)
    #[command(after_help = frame::keys())]
    Top(ExitsTopArguments),
    /// A histogram of the exits' lengths
    Hist(ExitsHistArguments),
    /// Every exit as a line, after what the host did meanwhile
    Trace(ExitsTraceArguments),
}

/// What every way to show exits understands.
#[derive(Debug, Args)]
pub struct ExitsCommon {
    /// Only this VM: its name, the process id of its VMM, or `all`
    #[arg(long, value_name = "VM", default_value = "all")]
    pub vm: String,
    /// Only these vCPUs, such as 0,2-3 [default: all]
    #[arg(long, value_name = "LIST")]
    pub vcpu: Option<String>,
    /// Only these reasons, by the names that are printed, such as cpuid,io [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub reason: Vec<String>,
    /// How long to count [default: until Ctrl-C]; a number alone is in seconds
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<u64>,
    /// List single exits only if others took at least this long of them (their length without the
    /// guest's own halts); every exit is counted; a number alone is in microseconds
    #[arg(short = 'T', long, value_name = "TIME", value_parser = noise)]
    pub threshold: Option<u64>,
    /// Draw this many of the longest exits, each as a timeline that adds up
    #[arg(long, value_name = "N")]
    pub timeline: Option<usize>,
    /// Record everything that is seen to this file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Measure as this user; only files and BPF programs are opened with the rights of root
    #[arg(long, value_name = "NAME", value_parser = account::parse)]
    pub user: Option<Account>,
    /// Send a guest the figures of its own exits while they are counted, over this socket of its
    /// VMM: unix:PATH (a virtio-serial port), vsock:PATH or vsock:PATH:PORT; once for each VM
    #[arg(long, value_name = "SOCKET")]
    pub feed: Vec<FeedAddress>,
    /// What a guest is sent: counts is how many exits there were and where their time went, reasons
    /// gives that for each exit reason, full adds the names of this host's tasks and interrupts
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
    /// Whether exits have to be reported one by one for anything but the trace.
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
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// `vmnoise exits hist`.
#[derive(Debug, Args)]
pub struct ExitsHistArguments {
    #[command(flatten)]
    pub common: ExitsCommon,
    #[command(flatten)]
    pub histogram: Histogram,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// `vmnoise exits trace`.
#[derive(Debug, Args)]
pub struct ExitsTraceArguments {
    #[command(flatten)]
    pub common: ExitsCommon,
}
