//! The options of `vmnoise export`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

/// `vmnoise export`: recordings for other programs.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("to").required(true).multiple(true).args(["perfetto", "parquet", "csv", "spreadsheet_csv", "rt_tests", "hlog", "folded", "loggopsim"]))]
pub struct ExportArguments {
    /// Recordings made with `-o`
    ///
    /// vmnoise joins a guest's recording and its host's (`vmnoise exits -o`), as `explain` does.
    #[arg(required = true)]
    pub recordings: Vec<PathBuf>,
    /// Write a timeline for ui.perfetto.dev
    ///
    /// Takes one recording, or two that are joined.
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,
    /// Write tables as Parquet into the data set in this folder
    ///
    /// Each run gets a folder of its own, host=NAME/run=RUN (docs/data.md).
    #[arg(long, value_name = "DIR")]
    pub parquet: Option<PathBuf>,
    /// Write the tables as CSV into this folder
    #[arg(long, value_name = "DIR")]
    pub csv: Option<PathBuf>,
    /// Write the tables as CSV that a spreadsheet can open safely
    ///
    /// A name that begins like a formula, such as `=HYPERLINK(...)`, gets a leading ' so that the
    /// spreadsheet does not execute it.
    #[arg(long, value_name = "DIR", conflicts_with = "csv")]
    pub spreadsheet_csv: Option<PathBuf>,
    /// Write a recording of `timerlat` as the JSON of cyclictest
    #[arg(long, value_name = "FILE")]
    pub rt_tests: Option<PathBuf>,
    /// Write an interval log of HdrHistogram, second by second
    ///
    /// The log has the lengths of gaps, latencies or exits. Takes one recording, or two that are
    /// joined.
    #[arg(long, value_name = "FILE")]
    pub hlog: Option<PathBuf>,
    /// Write who took the time, as folded stacks for flame graphs
    ///
    /// Values are in nanoseconds. flamegraph.pl, inferno and speedscope read the file. Takes one
    /// recording, or two that are joined.
    #[arg(long, value_name = "FILE")]
    pub folded: Option<PathBuf>,
    /// Write the gaps as noise for LogGOPSim into this folder
    ///
    /// Takes one recording of `microvm` or `osnoise`, and writes a file cpuN.noise for each CPU
    /// (`--noise-trace` of LogGOPSim).
    #[arg(long, value_name = "DIR")]
    pub loggopsim: Option<PathBuf>,
    /// Name the host in the data set [default: as in the recording]
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Accept only this VM as the guest: its name, or its VMM's process id
    ///
    /// For two joined recordings. They must still prove that this VM is the guest.
    #[arg(long, value_name = "VM")]
    pub vm: Option<String>,
}
