//! `vmnoise export`: explained recordings in the formats of other programs.

mod input;
mod joined;
mod joined_timeline;
mod loggopsim;
mod periods;
mod rt_tests;
mod single;
mod target;
mod targets;

use anyhow::Result;
use vmnoise_console::status::ExitStatus;
use vmnoise_engine::files::ResultFiles;

use crate::args::ExportArguments;
use crate::progress;
use targets::Targets;

/// Writes the requested files. If a recording ends early, exports the readable part, and prints the
/// fault on stderr.
pub fn run(arguments: &ExportArguments) -> Result<ExitStatus> {
    let inputs = input::open_all(arguments)?;
    let files = [
        ("timeline", &arguments.perfetto),
        ("JSON", &arguments.rt_tests),
        ("interval log", &arguments.hlog),
        ("stacks", &arguments.folded),
    ];
    let files = files
        .into_iter()
        .filter_map(|(what, path)| Some((what, path.as_ref()?)));
    let _claimed = ResultFiles::results(files, &arguments.recordings)?;
    if let Some((guest, host)) = input::pair_of(&inputs) {
        return joined::export(arguments, guest, host);
    }
    for input in &inputs {
        progress::expect(&input.path, 1);
    }
    let mut status = ExitStatus::Ok;
    for input in &inputs {
        let mut recording = single::export(input, Targets::new(arguments, input)?)?;
        status = status.or(recording.report());
    }
    Ok(status)
}
