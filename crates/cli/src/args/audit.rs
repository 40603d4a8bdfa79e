//! The options of `vmnoise audit`.

use std::path::PathBuf;

use clap::Args;

use super::times::duration;
use crate::output::format::AuditFormat;

/// `vmnoise audit`: what on this machine makes noise, or could.
#[derive(Debug, Args)]
#[command(override_usage = "vmnoise audit [OPTIONS] [host|guest|vm NAME] [RECORDING]...")]
pub struct AuditArguments {
    /// What the machine is looked at as [default: both]: `host`, without what matters to guests alone; `guest`, without
    /// what matters to hosts alone; `vm NAME`, as the host of this one VM (a name or number of `vmnoise exits --list`), on
    /// the CPUs that its vCPUs may use. Then a recording of `microvm` or `osnoise`, of this machine or of another: what
    /// each setting took of it (`./host` for a file called host). Or a guest's recording (`osnoise`, `timerlat`) and its
    /// host's of the same time (`exits`): they are judged together
    #[arg(value_name = "RECORDING", num_args = 0..=4)]
    pub words: Vec<PathBuf>,
    /// Measure these CPUs for so long, as `vmnoise osnoise` does, and rank by that; a number alone is in seconds
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub measure: Option<u64>,
    /// CPUs that are to be quiet, such as 1,3-5 [default: those that were recorded, or else those
    /// that are isolated, or else all]
    #[arg(short, long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Write the commands that can be given at once to two scripts in this folder, apply.sh and
    /// undo.sh; nothing is run
    #[arg(long, value_name = "DIR")]
    pub script: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = AuditFormat::Text)]
    pub format: AuditFormat,
}
