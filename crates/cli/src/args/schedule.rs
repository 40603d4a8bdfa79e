//! The options of `vmnoise schedule`.

use std::path::PathBuf;

use clap::Args;

use crate::output::format::Format;

const EXAMPLES: &str = "\
Examples:
  vmnoise osnoise -c 3 -d 10m -o run.vmn
  vmnoise schedule run.vmn                            the least time that CPU 3 left in any window
  vmnoise schedule run.vmn --tasks tasks.toml         whether these tasks keep their deadlines with it
  vmnoise schedule run.vmn --tasks tasks.toml --without 'ksmd*'
  vmnoise schedule run.vmn lat.vmn --tasks tasks.toml with the latency of timers (`timerlat`) as well

Exit status: 0 all tasks hold, 1 error, 2 one may miss its deadline, 3 CANNOT TELL, 129 usage";

/// `vmnoise schedule`: recordings, and tasks that are to run there.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ScheduleArguments {
    /// Recordings of `microvm` or `osnoise` (with `-o`); those of one CPU are taken together. The worst latency of
    /// one of `timerlat` blocks the tasks of its CPUs
    #[arg(required = true, value_name = "RECORDING")]
    pub recordings: Vec<PathBuf>,
    /// The tasks that share each CPU: a file in TOML, or a folder of models that LiME extracted (or one of them)
    #[arg(long, value_name = "FILE")]
    pub tasks: Option<PathBuf>,
    /// This CPU of the recordings alone
    #[arg(short, long, value_name = "CPU")]
    pub cpu: Option<u32>,
    /// As if whoever has such a name, or such a share, had taken nothing (`*` any characters, `?` one). May be given
    /// several times
    #[arg(long, value_name = "NAME")]
    pub without: Vec<String>,
    /// Leave the function in this file, as a table: what each length of window left at least, and each share's part
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}
