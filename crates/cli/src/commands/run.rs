//! `vmnoise run`: runs a command, and judges whether its run is fit to be compared with others.

use std::path::Path;

use anyhow::{Context, Result};
use vmnoise_console::status::ExitStatus;
use vmnoise_console::{interrupt, say, stderr};
use vmnoise_engine::command::{self, CannotStart, preflight};
use vmnoise_events::coverage::Question;
use vmnoise_export::write_whole;
use vmnoise_judge::fitness::{Fitness, FitnessVerdict};
use vmnoise_render::format::RunFormat;
use vmnoise_render::run::{CommandResult, JudgedRun, render};

use crate::args::RunArguments;

/// Runs the command, repeats an unfit run as often as `--retry` says, and reports the time taken.
pub fn run(arguments: &RunArguments) -> Result<ExitStatus> {
    let preflight = arguments.preflight.map(preflight::look).transpose()?;
    // From here on Ctrl-C ends only the command, and the result is still reported.
    interrupt::catch().context("catching Ctrl-C")?;
    let mut result = CommandResult {
        command: name(arguments),
        preflight,
        runs: Vec::new(),
    };
    for attempt in 0..=arguments.retry {
        let done = match command::run(&arguments.command) {
            Ok(done) => done,
            Err(error) => {
                let Some(cannot_start) = error.downcast_ref::<CannotStart>() else {
                    return Err(error);
                };
                say::say(cannot_start);
                return Ok(ExitStatus::OfCommand(cannot_start.code()));
            }
        };
        let evidence = command::evidence(&done, result.preflight.as_deref());
        let judged = FitnessVerdict::new(&arguments.fit, &evidence);
        let verdict = judged.verdict;
        result.runs.push(JudgedRun {
            done,
            evidence,
            judged,
        });
        if verdict != Fitness::Unfit || interrupt::was_asked() {
            break;
        }
        if attempt < arguments.retry {
            say::say(format_args!(
                "unfit: run {} of {}",
                attempt + 2,
                arguments.retry + 1
            ));
        }
    }
    tell(arguments, &result)?;
    let last = result.runs.last().context("no run")?;
    let code = last.done.ended.code();
    Ok(match last.judged.verdict {
        Fitness::Unfit if arguments.strict && code == 0 => ExitStatus::Unfit,
        Fitness::CannotTell if arguments.strict && code == 0 => ExitStatus::MachineCannot,
        _ => ExitStatus::OfCommand(code),
    })
}

fn tell(arguments: &RunArguments, result: &CommandResult) -> Result<()> {
    let rendered = render(arguments.format, result)?;
    if arguments.format == RunFormat::Bmf {
        say_not_seen(result);
    }
    match &arguments.output {
        Some(file) => write_whole(file, &rendered)
            .with_context(|| format!("the result cannot be written to {}", say::name_of(file))),
        None => {
            stderr::say(&String::from_utf8_lossy(&rendered));
            Ok(())
        }
    }
}

/// Prints the blind spots of the last run, because Bencher's format has no place for them.
fn say_not_seen(result: &CommandResult) {
    if let Some(run) = result.runs.last() {
        for spot in run.evidence.coverage.blind_spots(Question::Anything) {
            say::say(format_args!("not seen: {spot}"));
        }
    }
}

/// Returns the command as one line.
fn name(arguments: &RunArguments) -> String {
    let words = arguments
        .command
        .iter()
        .map(|it| say::name_of(Path::new(it)));
    words.collect::<Vec<_>>().join(" ")
}
