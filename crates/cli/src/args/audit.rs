//! The options of `vmnoise audit`.

use std::path::PathBuf;

use clap::Args;
use vmnoise_render::format::AuditFormat;

use super::times::duration;

/// `vmnoise audit`: settings of this machine that make noise, or could.
#[derive(Debug, Args)]
#[command(override_usage = "vmnoise audit [OPTIONS] [host|guest|vm NAME] [RECORDING]...")]
pub struct AuditArguments {
    /// Side to audit (`host`, `guest` or `vm NAME`), then recordings
    ///
    /// Without a side, the rules for hosts and for guests apply. `host` and `guest` leave out the
    /// rules that matter only to the other side. `vm NAME` audits the host of this VM, on the CPUs
    /// that its vCPUs may use; `vmnoise exits --list` shows names and numbers.
    ///
    /// With a recording of `microvm` or `osnoise`, settings are ranked by the time they took. The
    /// recording may be of another machine. With a guest's recording (`osnoise`, `timerlat`) and
    /// its host's of the same time (`exits`), both machines are judged together. Write ./host for
    /// a file called host.
    #[arg(value_name = "RECORDING", num_args = 0..=4)]
    pub words: Vec<PathBuf>,
    /// Rank by a new measurement of this length (seconds if no unit)
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub measure: Option<u64>,
    /// Check the settings for these CPUs, which should be quiet
    ///
    /// A list such as 1,3-5. Default: the recorded CPUs; else those that the VM's vCPUs may use;
    /// else the isolated CPUs; else all.
    #[arg(short, long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Write the fixes as scripts apply.sh and undo.sh into this folder
    ///
    /// The scripts contain the changes that need no reboot. vmnoise runs neither of them.
    #[arg(long, value_name = "DIR")]
    pub script: Option<PathBuf>,
    /// Print the result in this format
    #[arg(long, value_enum, default_value_t = AuditFormat::Text)]
    pub format: AuditFormat,
}
