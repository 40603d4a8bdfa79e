//! The options of what describes the command line to a machine: its manual and its shells.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// `vmnoise man`: the manual.
#[derive(Debug, Args)]
pub struct ManArguments {
    /// Folder for the pages, one for each command; it is made if it is not there
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// `vmnoise completions`: what a shell needs to complete this command line.
#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// The shell that will read it
    #[arg(value_enum)]
    pub shell: Shell,
}
