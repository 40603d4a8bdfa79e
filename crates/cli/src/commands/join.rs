//! `vmnoise explain GUEST HOST`. A first pass over both recordings finds the vCPU of each CPU of
//! the guest. A second pass assigns the host's work to the guest's gaps.

use std::path::Path;

use anyhow::Result;
use vmnoise_console::status::{ExitStatus, UsageError};
use vmnoise_events::{Event, MeasuringCommand, RunFacts};
use vmnoise_explain::{JoinError, JoinOptions, Joiner, Matcher, Pairs};
use vmnoise_render::format::Format;
use vmnoise_render::join::{JoinResult, refusal};

use super::replay::ReplayedRecording;
use crate::args::ExplainArguments;
use crate::progress;

/// Joins the recordings and prints the result. If a file ends early, joins the readable part, and
/// prints the fault on stderr.
pub fn run(arguments: &ExplainArguments, host: &Path) -> Result<ExitStatus> {
    let guest = arguments.recording.as_path();
    for path in [guest, host] {
        progress::expect(path, 2);
    }
    let mut both = Both::open(guest, host)?;
    let pairs = both.pair(arguments.vm.as_deref()).or_else(|error| {
        if let (Format::Json, Some(JoinError::Unpaired(unpaired))) =
            (arguments.format, error.downcast_ref())
        {
            refusal::print(&both.guest.facts, &both.host.facts, unpaired)?;
        }
        Err(error)
    })?;
    let recorded_ns = both.guest.facts.options.threshold_ns;
    let options = JoinOptions {
        above_ns: arguments.threshold.unwrap_or(0).max(recorded_ns),
        top: arguments.top,
    };
    let mut joiner = Joiner::new(&both.guest.facts, &both.host.facts, pairs, options);
    Both::open(guest, host)?.play(&mut joiner, &mut |_| Ok(()))?;
    let run = joiner.finish();
    let joined = JoinResult {
        guest: &both.guest.facts,
        host: &both.host.facts,
        run: &run,
    };
    joined.print(arguments.format)?;
    Ok(both.report())
}

/// Returns whether the second recording may be of the first one's host.
pub fn may_be_pair(guest: &RunFacts, host: &RunFacts) -> bool {
    let may_be_guest = matches!(
        guest.workload,
        MeasuringCommand::Microvm | MeasuringCommand::Osnoise | MeasuringCommand::Timerlat
    );
    may_be_guest && host.workload == MeasuringCommand::Exits
}

/// A guest's recording and its host's, in one of two passes.
pub struct Both<'a> {
    /// Recording of the guest.
    pub guest: ReplayedRecording<'a>,
    /// Recording of its host.
    pub host: ReplayedRecording<'a>,
}

/// Step of the second pass.
pub enum JoinStep<'a> {
    /// The joiner is about to take an event of the guest.
    Guest(&'a Event),
    /// The joiner is about to take an event of the host.
    Host(&'a Event),
    /// Some gaps may have become certain.
    Explained(&'a mut Joiner),
}

type OnStep<'a> = &'a mut dyn FnMut(JoinStep<'_>) -> Result<()>;

impl<'a> Both<'a> {
    /// Opens both recordings for one pass.
    ///
    /// # Errors
    /// If one of them cannot be read, or cannot be read twice.
    pub fn open(guest: &'a Path, host: &'a Path) -> Result<Both<'a>> {
        Ok(Both {
            guest: ReplayedRecording::open_file(guest)?,
            host: ReplayedRecording::open_file(host)?,
        })
    }

    /// Runs the first pass. If no pair is found, reports the unread parts of the recordings.
    ///
    /// # Errors
    /// If the two cannot be joined.
    pub fn pair(&mut self, vm: Option<&str>) -> Result<Pairs> {
        let matcher = Matcher::new(&self.guest.facts, &self.host.facts);
        let mut matcher = matcher.map_err(misplaced)?;
        if let Some(vm) = vm {
            matcher = matcher.only(vm);
        }
        while let Some(event) = self.guest.pull() {
            matcher.guest(&event);
        }
        while let Some(event) = self.host.pull() {
            matcher.host(&event);
        }
        let pairs = matcher.finish().inspect_err(|_| {
            self.report();
        })?;
        Ok(pairs)
    }

    /// Runs the second pass, in which each recording is read as far as the other allows.
    ///
    /// # Errors
    /// The errors of `on_step`.
    pub fn play(&mut self, joiner: &mut Joiner, on_step: OnStep<'_>) -> Result<()> {
        while let Some(event) = self.guest.pull() {
            on_step(JoinStep::Guest(&event))?;
            joiner.guest(&event);
            self.hear(joiner, on_step)?;
        }
        joiner.guest_ended();
        self.hear(joiner, on_step)
    }

    /// Reads the host's recording as far as the joiner needs it.
    fn hear(&mut self, joiner: &mut Joiner, on_step: OnStep<'_>) -> Result<()> {
        while joiner.wants_host() {
            match self.host.pull() {
                Some(event) => {
                    on_step(JoinStep::Host(&event))?;
                    joiner.host(&event);
                }
                None => joiner.host_ended(),
            }
        }
        on_step(JoinStep::Explained(joiner))
    }

    /// Reports the parts of both recordings that are not in the result.
    pub fn report(&mut self) -> ExitStatus {
        self.guest.report().or(self.host.report())
    }
}

/// Turns errors about the choice of recordings into usage errors.
fn misplaced(error: JoinError) -> anyhow::Error {
    match error {
        JoinError::Swapped | JoinError::NoHost | JoinError::NoGuest | JoinError::Observed => {
            UsageError(error.to_string()).into()
        }
        _ => error.into(),
    }
}
