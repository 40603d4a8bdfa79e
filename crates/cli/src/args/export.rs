//! The options of `vmnoise export`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

/// `vmnoise export`: recordings for other programs.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("to").required(true).multiple(true).args(["perfetto", "parquet", "csv", "spreadsheet_csv", "rt_tests", "hlog", "folded", "loggopsim"]))]
pub struct ExportArguments {
    /// Recordings made with `-o`. Two of them, of a guest's gaps and of its host's exits
    /// (`vmnoise exits -o`), are joined as `vmnoise explain` joins them
    #[arg(required = true)]
    pub recordings: Vec<PathBuf>,
    /// Write a timeline for ui.perfetto.dev: one recording, or two that are joined
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,
    /// Write tables as Parquet into the data set in this folder, each run into its own
    /// host=NAME/run=RUN (docs/data.md)
    #[arg(long, value_name = "DIR")]
    pub parquet: Option<PathBuf>,
    /// Write the tables as CSV
    #[arg(long, value_name = "DIR")]
    pub csv: Option<PathBuf>,
    /// Write the tables as CSV for a spreadsheet: a name that begins like a formula, such as
    /// `=HYPERLINK(...)`, gets a ' before it, so that it is not executed
    #[arg(long, value_name = "DIR", conflicts_with = "csv")]
    pub spreadsheet_csv: Option<PathBuf>,
    /// Write a recording of `timerlat` as the JSON that cyclictest writes
    #[arg(long, value_name = "FILE")]
    pub rt_tests: Option<PathBuf>,
    /// Write lengths of gaps, latencies or lengths of exits, second by second, as an interval log of
    /// HdrHistogram: one recording, or two that are joined
    #[arg(long, value_name = "FILE")]
    pub hlog: Option<PathBuf>,
    /// Write who took the time, in nanoseconds, as folded stacks that flame graphs are drawn from
    /// (flamegraph.pl, inferno, speedscope): one recording, or two that are joined
    #[arg(long, value_name = "FILE")]
    pub folded: Option<PathBuf>,
    /// Write the gaps of a recording of `microvm` or `osnoise` as noise for LogGOPSim (`--noise-trace`): a file
    /// cpuN.noise of each CPU into this folder
    #[arg(long, value_name = "DIR")]
    pub loggopsim: Option<PathBuf>,
    /// The host's name in the data set [default: that of the recording]
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// With two that are joined: only this VM may be the guest, by its name or the process id of
    /// its VMM; the recordings still have to prove it
    #[arg(long, value_name = "VM")]
    pub vm: Option<String>,
}
