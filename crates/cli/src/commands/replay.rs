//! Reads one recording from beginning to end: opens it, explains it, and reports how it ended.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::Result;
use vmnoise_console::say;
use vmnoise_console::status::{ExitStatus, UsageError};
use vmnoise_events::{Event, RunFacts};
use vmnoise_judge::compare::StreamSpan;
use vmnoise_recording::{ReadError, RecordingEnd, RecordingReader};

use crate::progress::{self, RecordingInput};

/// A recording, read event by event.
pub struct ReplayedRecording<'a> {
    path: &'a Path,
    /// Facts of the run, known before its first event.
    pub facts: RunFacts,
    /// Reader; `None` once the recording has ended.
    reader: Option<RecordingReader<RecordingInput>>,
    ended: Option<Result<RecordingEnd, ReadError>>,
}

impl<'a> ReplayedRecording<'a> {
    /// Opens a recording for one pass.
    ///
    /// # Errors
    /// If it cannot be read; the message names the file.
    pub fn open(path: &'a Path) -> Result<ReplayedRecording<'a>> {
        let reader = progress::open(path).map_err(|error| name_file(error, path))?;
        Ok(ReplayedRecording {
            path,
            facts: reader.facts().clone(),
            reader: Some(reader),
            ended: None,
        })
    }

    /// Opens a recording for one of several passes.
    ///
    /// # Errors
    /// If it cannot be read, or is no file that can be read twice.
    pub fn open_file(path: &'a Path) -> Result<ReplayedRecording<'a>> {
        let recording = ReplayedRecording::open(path)?;
        if !path.is_file() {
            return Err(UsageError(format!(
                "{}: vmnoise reads it twice, which works only for a file: save it as a file first",
                say::name_of(path)
            ))
            .into());
        }
        Ok(recording)
    }

    /// Reads the whole recording, and returns the span of time that it measured. A later pass
    /// reports faults.
    pub fn span(&mut self) -> StreamSpan {
        let mut span = StreamSpan::default();
        self.until(|event| {
            span.push(event);
            ControlFlow::<Infallible>::Continue(())
        });
        span
    }

    /// Returns the next event; `None` at the end or at a fault.
    pub fn pull(&mut self) -> Option<Event> {
        let ended = match self.reader.as_mut()?.next_event() {
            Ok(ControlFlow::Continue(event)) => return Some(event),
            Ok(ControlFlow::Break(ending)) => Ok(ending),
            Err(fault) => Err(fault),
        };
        self.ended = Some(ended);
        self.reader = None;
        None
    }

    /// Passes on all remaining events, until the end or a fault of the recording.
    ///
    /// # Errors
    /// The first error of `on_event`.
    pub fn each(&mut self, mut on_event: impl FnMut(&Event) -> Result<()>) -> Result<()> {
        let failed = self.until(|event| match on_event(event) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        });
        failed.map_or(Ok(()), Err)
    }

    /// Passes on events until `f` breaks, and returns its value; `None` if the recording ended.
    fn until<B>(&mut self, f: impl FnMut(&Event) -> ControlFlow<B>) -> Option<B> {
        let ended = match self.reader.as_mut()?.try_for_each(f) {
            Ok(ControlFlow::Break(broken_off)) => return Some(broken_off),
            Ok(ControlFlow::Continue(ending)) => Ok(ending),
            Err(fault) => Err(fault),
        };
        self.ended = Some(ended);
        self.reader = None;
        None
    }

    /// Returns how reading ended. Returns `None` if reading has not ended, and in later calls.
    pub fn ended(&mut self) -> Option<Result<RecordingEnd, ReadError>> {
        self.ended.take()
    }

    /// Reports a recording that was cut off.
    ///
    /// # Errors
    /// The fault at which reading ended.
    pub fn report_ending(&mut self) -> Result<()> {
        let ending = self.ended().transpose();
        let ending = ending.map_err(|error| name_file(error, self.path))?;
        if let Some(RecordingEnd::CutOff { .. }) = ending {
            say::say(format_args!(
                "{}: the recording was cut off; the result covers the part that was written",
                say::name_of(self.path)
            ));
        }
        Ok(())
    }

    /// Reports a recording that was cut off, or a fault, and returns the status.
    pub fn report(&mut self) -> ExitStatus {
        match self.report_ending() {
            Ok(()) => ExitStatus::Ok,
            Err(fault) => ExitStatus::of_error(&fault),
        }
    }
}

/// Adds the name of the file to an error that lacks it.
fn name_file(error: ReadError, path: &Path) -> anyhow::Error {
    match error {
        ReadError::Open { .. } => error.into(),
        _ => anyhow::Error::new(error).context(say::name_of(path)),
    }
}
