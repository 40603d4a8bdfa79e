//! `vmnoise check`: judges whether a recording keeps a budget.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use vmnoise_console::say;
use vmnoise_console::status::{ExitStatus, UsageError};
use vmnoise_events::{MeasuringCommand, RunFacts};
use vmnoise_explain::{JoinOptions, Joiner};
use vmnoise_export::write_whole;
use vmnoise_judge::check::{
    Budget, BudgetEvidence, CheckVerdict, EvidenceReader, JoinedEvidenceReader, LimitVerdict,
};
use vmnoise_judge::compare::StreamSpan;
use vmnoise_render::check::{CheckResult, render};
use vmnoise_render::format::CheckFormat;

use super::join::{Both, JoinStep};
use super::replay::ReplayedRecording;
use crate::args::CheckArguments;
use crate::args::budget::{cnf, file};
use crate::progress;

/// Judges the recording, prints the verdict, and writes the verdict next to the recording.
pub fn run(arguments: &CheckArguments) -> Result<ExitStatus> {
    let path = &arguments.recording;
    progress::expect(path, 2);
    let (facts, span) = look(path)?;
    let budget = budget(arguments, &facts)?;
    let (file, evidence) = match &arguments.host {
        Some(host) => (
            format!("{} joined with {}", say::name_of(path), say::name_of(host)),
            read_joined(path, host, span, &budget)?,
        ),
        None => (say::name_of(path), read(path, &facts, span, &budget)?),
    };
    let checked = CheckResult {
        file,
        judged: CheckVerdict::new(&budget, &evidence),
        evidence: &evidence,
    };
    // Print first, because the verdict is needed even if the file cannot be written.
    vmnoise_render::write(&render(arguments.format, &checked)?)?;
    if let Err(error) = leave_beside(path, &checked) {
        say::say(format_args!("{error:#}: the verdict is only printed"));
    }
    Ok(match checked.judged.verdict {
        LimitVerdict::Pass | LimitVerdict::Warn => ExitStatus::Ok,
        LimitVerdict::Fail => ExitStatus::Limit,
        LimitVerdict::CannotTell => ExitStatus::MachineCannot,
    })
}

/// Reads the facts of a recording and the time that it measured.
fn look(path: &Path) -> Result<(RunFacts, StreamSpan)> {
    let mut recording = ReplayedRecording::open_file(path)?;
    let facts = recording.facts.clone();
    if facts.workload == MeasuringCommand::Exits {
        return Err(UsageError(format!(
            "{} is of `vmnoise exits`, which has neither gaps nor wake-ups: check recordings of `microvm`, `osnoise` or \
             `timerlat`",
            say::name_of(path)
        ))
        .into());
    }
    Ok((facts, recording.span()))
}

fn read(
    path: &Path,
    facts: &RunFacts,
    span: StreamSpan,
    budget: &Budget,
) -> Result<BudgetEvidence> {
    let mut recording = ReplayedRecording::open_file(path)?;
    let mut reader = EvidenceReader::new(facts, span, budget);
    recording.each(|event| {
        reader.push(event);
        Ok(())
    })?;
    recording.report_ending()?;
    Ok(reader.finish())
}

/// Reads a guest's recording joined with its host's. Refuses recordings that do not belong
/// together.
fn read_joined(
    guest: &Path,
    host: &Path,
    span: StreamSpan,
    budget: &Budget,
) -> Result<BudgetEvidence> {
    progress::expect(host, 2);
    let pairs = Both::open(guest, host)?.pair(None)?;
    let mut both = Both::open(guest, host)?;
    let facts = &both.guest.facts;
    let options = JoinOptions {
        above_ns: facts.options.threshold_ns,
        top: 1,
    };
    let mut reader = JoinedEvidenceReader::new(facts, span, budget);
    let mut joiner = Joiner::new(facts, &both.host.facts, pairs, options).with_intervals();
    both.play(&mut joiner, &mut |step| {
        match step {
            JoinStep::Guest(event) => reader.guest(event),
            JoinStep::Explained(joiner) => reader.take(joiner),
            JoinStep::Host(_) => {}
        }
        Ok(())
    })?;
    both.guest.report_ending()?;
    both.host.report_ending()?;
    Ok(reader.finish(joiner))
}

/// Returns all limits. The command line takes precedence over the file, and the file over the
/// environment.
fn budget(arguments: &CheckArguments, facts: &RunFacts) -> Result<Budget> {
    let mut budget = Budget {
        requirements: arguments.requirements(),
        runtime_ns: arguments.duration,
    };
    if let Some(path) = &arguments.budget {
        let text = fs::read_to_string(path);
        let text =
            text.with_context(|| format!("cannot read the budget {}", say::name_of(path)))?;
        let more = file::parse(&text);
        let more = more.map_err(|error| UsageError(format!("{}: {error}", say::name_of(path))))?;
        budget.add_what_is_not_limited(more);
    }
    if arguments.cnf {
        let more = cnf::of_environment(facts.workload, |name| std::env::var(name).ok());
        budget.add_what_is_not_limited(more.map_err(UsageError)?);
    }
    if facts.workload == MeasuringCommand::Timerlat
        && let Some(other) = budget
            .requirements
            .iter()
            .find(|it| !it.quantity.is_of_latencies())
    {
        return Err(UsageError(format!(
            "{} is of `vmnoise timerlat`, which has no `{}`: limit max and percentiles",
            say::name_of(&arguments.recording),
            other.quantity
        ))
        .into());
    }
    match budget.requirements.is_empty() && budget.runtime_ns.is_none() {
        true => Err(UsageError(
            "no limit is given; write a limit such as --max 40us, or --budget FILE".into(),
        )
        .into()),
        false => Ok(budget),
    }
}

/// Writes the verdict next to the recording: the verdict of run.vmn goes to run.vmn.verdict.json.
fn leave_beside(recording: &Path, checked: &CheckResult<'_>) -> Result<()> {
    let mut path = recording.as_os_str().to_owned();
    path.push(".verdict.json");
    let path = PathBuf::from(path);
    let document = render(CheckFormat::Json, checked)?;
    write_whole(&path, &document)
        .with_context(|| format!("cannot write the verdict to {}", say::name_of(&path)))
}
