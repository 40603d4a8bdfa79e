//! The options of `vmnoise schedule`.

use std::path::PathBuf;

use clap::Args;
use vmnoise_render::format::Format;

const EXAMPLES: &str = "\
Examples:
  vmnoise osnoise -c 3 -d 10m -o run.vmn
  vmnoise schedule run.vmn                            the least time left on CPU 3 in any window
  vmnoise schedule run.vmn --tasks tasks.toml         whether these tasks meet their deadlines
  vmnoise schedule run.vmn --tasks tasks.toml --without 'ksmd*'
  vmnoise schedule run.vmn lat.vmn --tasks tasks.toml including timer latency (from `timerlat`)

Exit status: 0 all tasks hold, 1 error, 2 a task may miss its deadline, 3 CANNOT TELL, 129 usage";

/// `vmnoise schedule`: recordings, and the tasks to run on their CPUs.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ScheduleArguments {
    /// Recordings of `microvm` or `osnoise`, made with `-o`
    ///
    /// Recordings of one CPU are combined. A recording of `timerlat` adds its worst latency to the
    /// tasks of its CPUs, as blocking time.
    #[arg(required = true, value_name = "RECORDING")]
    pub recordings: Vec<PathBuf>,
    /// Judge these tasks, which share each CPU: a TOML file or LiME models
    ///
    /// LiME models are a folder that LiME extracted, or one file in it (docs/schedule.md).
    #[arg(long, value_name = "FILE")]
    pub tasks: Option<PathBuf>,
    /// Use only this CPU of the recordings
    #[arg(short, long, value_name = "CPU")]
    pub cpu: Option<u32>,
    /// Ignore time taken by this culprit or share, such as 'kworker*'
    ///
    /// `*` matches any characters and `?` matches one. May be given several times.
    #[arg(long, value_name = "NAME")]
    pub without: Vec<String>,
    /// Write the least time left, by window length, to this CSV file
    ///
    /// Each row also has the most time that each share took in a window of this length.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Print the result in this format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}
