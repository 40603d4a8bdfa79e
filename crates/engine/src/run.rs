//! One run from its first file to its status: tries the files, gives up rights, measures, prints
//! the result, and acts on a limit.

use std::fs::File;
use std::path::PathBuf;

use anyhow::{Context, Result};
use vmnoise_console::status::ExitStatus;
use vmnoise_console::{as_rtla, interrupt, rights, say};
use vmnoise_events::{FinishReason, MeasuringCommand, RunFacts, RunOptions, Settings};
use vmnoise_export::Readers;
use vmnoise_rights::AttachedWork;
use vmnoise_rights::account::Account;
use vmnoise_views::{FrameStart, ResultPart, ResultView};

use crate::files::{begin_recording, claim, claim_trace, refuse_recording, remove_if_empty};
use crate::measure::{EventSource, measure};
use crate::reaction::action::Action;
use crate::reaction::saving::{GivenUp, Saving};
use crate::reaction::shell::Shell;
use crate::reaction::{Helpers, OnThreshold, Reaction};
use crate::recorder;
use crate::session::Session;
use crate::shown::TerminalView;

/// Duration of a run without a limit, which Ctrl-C ends.
pub const FOREVER_NS: u64 = RunOptions::FOREVER_NS;

/// Options of a run that apply to every source.
#[derive(Debug, Default)]
pub struct RunRequest {
    /// Path of the recording.
    pub output: Option<PathBuf>,
    /// Path for the last lines of the trace if a limit stops the run.
    pub trace_file: Option<PathBuf>,
    /// Default name of the trace file.
    pub trace_name: &'static str,
    /// Actions when a limit is hit.
    pub on_threshold: Vec<Action>,
    /// Actions after the result.
    pub on_end: Vec<Action>,
    /// Reads the settings of this machine for the recording; `None` if they are not recorded.
    pub settings: Option<fn() -> Option<Settings>>,
    /// Account whose rights the run takes.
    pub user: Option<Account>,
    /// Whether the run writes result files when it ends.
    pub saves_results: bool,
}

impl RunRequest {
    /// Returns the work that remains after the BPF programs are attached.
    fn works(&self, source: &impl EventSource) -> Vec<AttachedWork> {
        let acts = |is_it: fn(&Action) -> bool| self.actions().any(is_it);
        let mut works = source.works();
        let saves_trace = acts(|action| matches!(action, Action::Trace(_)));
        if self.saves_results || self.trace_file.is_some() || saves_trace {
            works.push(AttachedWork::SaveFiles);
        }
        if acts(|action| matches!(action, Action::Signal { .. })) {
            works.push(AttachedWork::SendSignals);
        }
        works
    }

    fn actions(&self) -> impl Iterator<Item = &Action> {
        self.on_threshold.iter().chain(&self.on_end)
    }
}

/// Makes a run. `set_up` prepares the source while this process still has all its rights. `view`
/// shows the run and prints the result. `frame`, if there is one, fills the terminal until the
/// result.
///
/// # Errors
/// If the run cannot be set up or fails. Errors of the recording and of actions are returned after
/// the result is printed.
pub fn run_measurement<S: EventSource + 'static>(
    run: &RunRequest,
    view: &mut dyn ResultView,
    frame: Option<FrameStart>,
    set_up: impl FnOnce(Option<&Shell>) -> Result<(RunFacts, S)>,
) -> Result<ExitStatus> {
    if let Some(path) = &run.trace_file {
        refuse_recording(path, run.output.as_slice())?;
    }
    let recording = run.output.as_deref();
    let recording = recording.map(|path| claim(path, "recording", Readers::Owner));
    let recording = recording.transpose()?;
    if let Some(path) = &run.trace_file {
        claim_trace(path, run.trace_name)?;
    }
    let outcome = carry_out(run, recording, view, frame, set_up);
    let given_up = |error: &anyhow::Error| error.is::<GivenUp>();
    let trace_file = match &outcome {
        // Removing the file would wait for the disk that hangs.
        Err(error) if given_up(error) => &None,
        _ => &run.trace_file,
    };
    for path in [&run.output, trace_file].into_iter().flatten() {
        remove_if_empty(path);
    }
    outcome
}

fn carry_out<S: EventSource + 'static>(
    run: &RunRequest,
    recording: Option<File>,
    view: &mut dyn ResultView,
    frame: Option<FrameStart>,
    set_up: impl FnOnce(Option<&Shell>) -> Result<(RunFacts, S)>,
) -> Result<ExitStatus> {
    let helpers = Helpers::for_actions(run.actions())?;
    vmnoise_rights::begin(run.user.as_ref())?;
    interrupt::catch().context("catching Ctrl-C")?;
    // The settings are read before the measurement, because nothing is drained while they are read.
    // Unreadable settings stay unknown, as in older recordings.
    let settings = run.settings.filter(|_| recording.is_some());
    let settings = settings.and_then(|read| read());
    let (mut facts, source) = set_up(helpers.shell.as_deref())?;
    facts.host.settings = settings;
    let writer = match recording {
        Some(file) => {
            begin_recording(&file).context("beginning the recording")?;
            Some(recorder::begin(file, &facts)?)
        }
        None => None,
    };
    rights::keep(&run.works(&source))?;
    let session = Session::new(&facts, writer, TerminalView::new(view, frame));
    let mut on_threshold =
        OnThreshold::new(run.on_threshold.clone(), run.trace_name, helpers.clone());
    let (outcome, by_limit) = measure(&facts, Box::new(source), session, &mut on_threshold)?;
    if by_limit && !run.on_threshold.is_empty() {
        view.print(ResultPart::BeforeActions(outcome.measured))?;
    }
    let acted = match interrupt::was_asked() {
        true => Ok(()),
        false => on_threshold.act(by_limit, &outcome.trace),
    };
    // The result is printed before the recording is complete, because the disk may never take the
    // rest of the recording.
    let shown = outcome.print(&facts, view);
    let finish_reason = outcome.explained.finish_reason();
    let trace = outcome.trace;
    let write_error = outcome.recorded.wait();
    shown?;
    let left = on_threshold.end(interrupt::was_asked(), &trace);
    let mut failure = acted.err().or(left.err());
    let stopped = finish_reason == Some(FinishReason::Stop);
    if let Some(path) = &run.trace_file
        && stopped
    {
        Saving::begin(&trace, path, run.trace_name)?.wait()?;
        if !as_rtla::names_trace_first() {
            say::say(format_args!(
                "the trace before the stop is in {}",
                say::name_of(path)
            ));
        }
    }
    if stopped && as_rtla::reports_limit_after_failure() {
        // In rtla, a failed action ends the list of actions, and the run still reports the limit.
        if let Some(failed) = failure.take() {
            ExitStatus::of_error(&failed);
        }
    }
    let ended = Reaction::new(run.on_end.clone(), run.trace_name, helpers).finish(&trace);
    match write_error.or(failure).or(ended.err()) {
        Some(error) => Err(error),
        None if stopped => Ok(ExitStatus::Limit),
        // The reason for the failure was already printed. The end of an observed thread is no
        // error.
        None if finish_reason == Some(FinishReason::Failed)
            && facts.workload != MeasuringCommand::Observed =>
        {
            Ok(ExitStatus::Error)
        }
        None => Ok(ExitStatus::Ok),
    }
}
