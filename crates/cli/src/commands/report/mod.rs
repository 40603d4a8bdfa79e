//! `vmnoise report`: recordings as one page, each explained as by `vmnoise explain`.

mod alone;
mod fleet;
mod gatherer;
mod joined;
mod left;
mod vcpu_names;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use vmnoise_console::say;
use vmnoise_console::status::{ExitStatus, UsageError};
use vmnoise_engine::files::{ResultFiles, is_same};
use vmnoise_events::{MeasuringCommand, RunFacts, ShownLine};
use vmnoise_export::write_whole;
use vmnoise_recording::{ReadError, RecordingEnd};
use vmnoise_report::{Headline, Page, RefusedFile, ReportedRun, ResolvedMoments};

use super::join::may_be_pair;
use super::replay::ReplayedRecording;
use crate::args::ReportArguments;
use crate::progress;

/// Writes a page with all readable recordings, even if another file cannot be read.
pub fn run(arguments: &ReportArguments) -> Result<ExitStatus> {
    let page = [("page", &arguments.output)];
    let _claimed = ResultFiles::results(page, &arguments.recordings)?;
    if let Some(folder) = arguments.recordings.iter().find(|path| path.is_dir()) {
        return of_data_set(arguments, folder);
    }
    let (mut readable, mut refused) = (Vec::new(), Vec::new());
    for (nth, path) in arguments.recordings.iter().enumerate() {
        let mut before = arguments.recordings[..nth].iter();
        if before.any(|before| is_same(before, path)) {
            say::say(format_args!(
                "{} is named twice, and shown once",
                say::name_of(path)
            ));
            continue;
        }
        match ReplayedRecording::open_file(path) {
            Ok(recording) => readable.push((path, recording.facts)),
            Err(error) => refuse(&mut refused, path, &error),
        }
    }
    for (path, facts) in &readable {
        progress::expect(path, passes(facts, &readable));
    }
    let mut runs = Vec::new();
    let mut status = ExitStatus::Ok;
    let mut hosts: Vec<&PathBuf> = Vec::new();
    let mut guest_is_left = false;
    for (path, facts) in &readable {
        let mut notes = Vec::new();
        let mut read = None;
        for (host, _) in readable.iter().filter(|(_, host)| may_be_pair(facts, host)) {
            match joined::run(path, host) {
                Ok(joined) => {
                    read = Some(joined);
                    hosts.push(host);
                    break;
                }
                Err(why) => {
                    let note = format!("Not joined with {}: {why:#}.", host.display());
                    notes.push(ShownLine::from(note).into());
                }
            }
        }
        guest_is_left |= read.is_none() && !notes.is_empty();
        let read = match read {
            Some(read) => Ok(read),
            None => alone::run(path),
        };
        match read {
            Ok(mut read) => {
                if !read.whole {
                    status = ExitStatus::Error;
                }
                read.run.notes.extend(notes);
                for note in &read.run.notes {
                    say::say(format_args!("{}: {note}", say::name_of(path)));
                }
                runs.push(read.run);
            }
            Err(error) => refuse(&mut refused, path, &error),
        }
    }
    if runs.is_empty() {
        anyhow::bail!("none of these can be shown: no page was written");
    }
    // A host's recording without a guest is an error only if some guest could not be joined.
    // Otherwise, the host was recorded at another time, for comparison.
    let is_left = |(path, facts): &(&PathBuf, RunFacts)| {
        facts.workload == MeasuringCommand::Exits && !hosts.contains(path)
    };
    if !refused.is_empty() || (guest_is_left && readable.iter().any(is_left)) {
        status = ExitStatus::Error;
    }
    write(arguments, runs, refused)?;
    Ok(status)
}

/// Writes a page that compares the hosts of a data set, without details of each host.
fn of_data_set(arguments: &ReportArguments, folder: &Path) -> Result<ExitStatus> {
    if arguments.recordings.len() > 1 {
        let what = format!(
            "{} is the folder of a data set, which gets a page of its own: name it alone",
            say::name_of(folder)
        );
        return Err(UsageError(what).into());
    }
    let page = fleet::read(folder)?;
    write_page(arguments, &page.render()?, "")?;
    Ok(match page.refused.is_empty() {
        true => ExitStatus::Ok,
        false => ExitStatus::Error,
    })
}

fn write(
    arguments: &ReportArguments,
    runs: Vec<ReportedRun>,
    refused: Vec<RefusedFile>,
) -> Result<()> {
    let page = Page {
        runs,
        refused,
        tool_version: env!("CARGO_PKG_VERSION").into(),
    };
    write_page(arguments, &page.render()?, &headlines(&page.runs))
}

/// Returns two lines for each run: the lost time, and who took it. With several runs, each line
/// begins with the file.
fn headlines(runs: &[ReportedRun]) -> String {
    let lines = runs.iter().map(|run| {
        let Headline { lost, taker } = Headline::of(run);
        let taker = taker.unwrap_or_else(|| "No culprit was seen".to_owned());
        match runs.len() {
            1 => format!("{lost}.\n{taker}.\n"),
            _ => format!("{file}: {lost}.\n{file}: {taker}.\n", file = run.file),
        }
    });
    // Only ASCII, as in all other text on a terminal.
    let ascii = [("\u{a0}", " "), ("\u{202f}", " "), ("µ", "u"), ("’", "'")];
    ascii
        .iter()
        .fold(lines.collect(), |text: String, (letter, plain)| {
            text.replace(letter, plain)
        })
}

/// Writes the page, and prints the headlines and the path of the page.
fn write_page(arguments: &ReportArguments, page: &str, headlines: &str) -> Result<()> {
    let path = &arguments.output;
    write_whole(path, page.as_bytes())
        .with_context(|| format!("cannot write the page {}", say::name_of(path)))?;
    let whole = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
    let reported = format!(
        "{headlines}report: {} ({})\n",
        say::name_of(&whole),
        megabytes(page.len())
    );
    vmnoise_render::write(reported.as_bytes())
}

fn refuse(refused: &mut Vec<RefusedFile>, path: &Path, error: &anyhow::Error) {
    ExitStatus::of_error(error);
    refused.push(RefusedFile {
        file: say::name_of(path),
        // The error may quote the file's content, so control characters must become visible.
        why: ShownLine::from(format!("{error:#}")).into(),
    });
}

/// Returns how often a recording is read, alone and to join it with others.
fn passes(facts: &RunFacts, among: &[(&PathBuf, RunFacts)]) -> u64 {
    let of = |may_be: &dyn Fn(&RunFacts) -> bool| {
        let others = among.iter().filter(|(_, other)| may_be(other));
        others.count() as u64
    };
    match facts.workload {
        // Once alone, and twice for each guest: to find the pair, and to join.
        MeasuringCommand::Exits => 1 + 2 * of(&|guest| may_be_pair(guest, facts)),
        // Twice to join it with a host, and once for its longest gaps.
        _ if of(&|host| may_be_pair(facts, host)) > 0 => 3,
        _ => 2,
    }
}

/// A recording that was read.
struct Read {
    run: ReportedRun,
    /// Whether reading reached the end without a fault.
    whole: bool,
}

/// Adds a note on how reading ended, and returns whether it ended without a fault.
fn ended(ended: Option<Result<RecordingEnd, ReadError>>, notes: &mut Vec<String>) -> bool {
    match ended {
        Some(Ok(RecordingEnd::Complete)) | None => true,
        Some(Ok(RecordingEnd::CutOff { .. })) => {
            notes.push(
                "The run was cut off; the page shows the part that it had written.".to_owned(),
            );
            true
        }
        Some(Err(fault)) => {
            let fault = anyhow::Error::new(fault);
            notes.push(format!(
                "The page shows only the part before a fault: {fault:#}."
            ));
            false
        }
    }
}

/// Splits a text into sentences for the page, one per line.
fn sentences(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| line.trim().to_owned())
        .filter(|line| !line.is_empty())
        .collect()
}

/// Returns these limits, and a sentence about the data that the page leaves out.
fn with_left_out(limits: Vec<String>, gathered: &ResolvedMoments) -> Vec<String> {
    limits.into_iter().chain(gathered.left_out()).collect()
}

fn megabytes(bytes: usize) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
