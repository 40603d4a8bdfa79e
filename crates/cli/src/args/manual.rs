//! The options of `vmnoise man` and `vmnoise completions`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// `vmnoise man`: the manual.
#[derive(Debug, Args)]
pub struct ManArguments {
    /// Folder for the pages, one for each command; created if missing
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// `vmnoise completions`: the script that lets a shell complete this command line.
#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// Shell that reads the script
    #[arg(value_enum)]
    pub shell: Shell,
}
