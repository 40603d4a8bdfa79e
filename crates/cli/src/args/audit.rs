//! The options of `vmnoise audit`.

use std::path::PathBuf;

use clap::Args;

use crate::output::format::Format;

/// `vmnoise audit`: what on this machine makes noise, or could.
#[derive(Debug, Args)]
pub struct AuditArguments {
    /// A recording of `microvm` or `osnoise` on this machine: what each setting took of it
    pub recording: Option<PathBuf>,
    /// CPUs that are to be quiet, such as 1,3-5 [default: those that were recorded, or else those
    /// that are isolated, or else all]
    #[arg(short, long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Write the commands that can be given at once to two scripts in this folder, apply.sh and
    /// undo.sh; nothing is run
    #[arg(long, value_name = "DIR")]
    pub script: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}
