//! The commands, and what they take.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use vmnoise_lab::accel::Accel;

/// The experiments of the papers on latencies and noise of virtual machines, to be run again.
#[derive(Debug, Parser)]
#[command(name = "vmnoise-lab", version, max_term_width = 100)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Lists the scenarios that come with the program.
    List,
    /// Shows a scenario: where it comes from, what it measures, and its cells.
    Show {
        /// One of `vmnoise-lab list`, or a file.
        #[arg(value_name = "SCENARIO")]
        scenario: String,
    },
    /// Says what a run would do, need and take; does nothing.
    Plan {
        /// One of `vmnoise-lab list`, or a file.
        #[arg(value_name = "SCENARIO")]
        scenario: String,
        /// Only these cells.
        #[arg(long, value_name = "CELL", num_args = 1..)]
        only: Vec<String>,
        /// On what: `tcg` emulates every machine, `kvm` is this machine itself with its own kernel,
        /// `xen` this Dom0.
        #[arg(long, value_enum, default_value_t = Accel::Tcg)]
        accel: Accel,
    },
    /// Runs a scenario. What is measured already is kept.
    Run(RunArguments),
    /// Writes a page of what runs have measured, beside the papers' figures, and the same as Markdown
    /// and CSV.
    Report {
        /// Folders of `vmnoise-lab run`.
        #[arg(value_name = "DIR", required = true)]
        folders: Vec<PathBuf>,
        /// The page; the others have the same name with another ending.
        #[arg(short, long, value_name = "FILE", default_value = "papers.html")]
        output: PathBuf,
    },
    /// Puts runs of one scenario together, such as those of several machines.
    Merge {
        /// Folders of `vmnoise-lab run`; of a cell that two have measured, the first counts.
        #[arg(value_name = "DIR", required = true)]
        folders: Vec<PathBuf>,
        /// The folder for what was put together.
        #[arg(short, long, value_name = "DIR")]
        output: PathBuf,
    },
    /// Prints the JSON schema of a scenario's file.
    Schema,
}

/// What `run` takes.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// One of `vmnoise-lab list`, or a file.
    #[arg(value_name = "SCENARIO")]
    pub scenario: String,
    /// Where what is measured is kept [default: papers/SCENARIO].
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Only these cells.
    #[arg(long, value_name = "CELL", num_args = 1..)]
    pub only: Vec<String>,
    /// On what: `tcg` emulates every machine, `kvm` is this machine itself with its own kernel,
    /// `xen` this Dom0.
    #[arg(long, value_enum, default_value_t = Accel::Tcg)]
    pub accel: Accel,
    /// Measures each cell this often [default: as the scenario says].
    #[arg(long, value_name = "N")]
    pub repeat: Option<u32>,
    /// What is random in emulation comes from this: the same seed gives the same run.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}
