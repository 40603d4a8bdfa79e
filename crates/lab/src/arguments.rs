//! Commands and their arguments.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use vmnoise_lab::accel::Accel;

/// Repeats the papers' experiments on latencies and noise of virtual machines.
#[derive(Debug, Parser)]
#[command(name = "vmnoise-lab", version, max_term_width = 100)]
pub struct LabArguments {
    /// Command.
    #[command(subcommand)]
    pub command: LabCommand,
}

/// Command of the program.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Lists the scenarios that come with the program.
    List,
    /// Shows a scenario: its source, its measurements and its cells.
    Show {
        /// Name from `vmnoise-lab list`, or a file.
        #[arg(value_name = "SCENARIO")]
        scenario: String,
    },
    /// Prints what a run would do, need and take, without running it.
    Plan {
        /// Name from `vmnoise-lab list`, or a file.
        #[arg(value_name = "SCENARIO")]
        scenario: String,
        /// Plan only these cells.
        #[arg(long, value_name = "CELL", num_args = 1..)]
        only: Vec<String>,
        /// Where to run: `tcg` emulates every machine, `kvm` is this machine with its own kernel,
        /// `xen` is this Dom0.
        #[arg(long, value_enum, default_value_t = Accel::Tcg)]
        accel: Accel,
    },
    /// Runs a scenario; cells that were measured before are kept.
    Run(LabRunArguments),
    /// Writes the measured figures next to the papers' figures, as a page, Markdown and CSV.
    Report {
        /// Folders that `vmnoise-lab run` wrote.
        #[arg(value_name = "DIR", required = true)]
        folders: Vec<PathBuf>,
        /// The page; the Markdown and CSV files differ only in the extension.
        #[arg(short, long, value_name = "FILE", default_value = "papers.html")]
        output: PathBuf,
    },
    /// Merges runs of one scenario, such as those of several machines.
    Merge {
        /// Folders that `vmnoise-lab run` wrote; if two have the same cell, the first counts.
        #[arg(value_name = "DIR", required = true)]
        folders: Vec<PathBuf>,
        /// Folder for the merged run.
        #[arg(short, long, value_name = "DIR")]
        output: PathBuf,
    },
    /// Prints the JSON schema of a scenario's file.
    Schema,
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct LabRunArguments {
    /// Name from `vmnoise-lab list`, or a file.
    #[arg(value_name = "SCENARIO")]
    pub scenario: String,
    /// Folder for the results [default: papers/SCENARIO].
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Run only these cells.
    #[arg(long, value_name = "CELL", num_args = 1..)]
    pub only: Vec<String>,
    /// Where to run: `tcg` emulates every machine, `kvm` is this machine with its own kernel, `xen`
    /// is this Dom0.
    #[arg(long, value_enum, default_value_t = Accel::Tcg)]
    pub accel: Accel,
    /// Measure each cell N times [default: as in the scenario].
    #[arg(long, value_name = "N")]
    pub repeat: Option<u32>,
    /// Seed of everything random in emulation; the same seed gives the same run.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}
