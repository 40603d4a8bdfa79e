//! One recording from its begin to its end: opened, explained, and told how it ended.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::Result;
use vmnoise_events::{Event, RunFacts};
use vmnoise_judge::compare::Span;
use vmnoise_recording::{Ending, ReadError, Reader};

use crate::progress::{self, Input};
use crate::run::{Explaining, View};
use crate::say;
use crate::status::{Status, UsageError};

/// A recording, read event by event.
pub struct Recording<'a> {
    path: &'a Path,
    /// What was true before its first event.
    pub facts: RunFacts,
    /// None once it has ended.
    reader: Option<Reader<Input>>,
    ended: Option<Result<Ending, ReadError>>,
}

impl<'a> Recording<'a> {
    /// Opens it for one pass.
    ///
    /// # Errors
    /// If it cannot be read; the message names the file.
    pub fn open(path: &'a Path) -> Result<Recording<'a>> {
        let reader = progress::open(path).map_err(|error| name_file(error, path))?;
        Ok(Recording {
            path,
            facts: reader.facts().clone(),
            reader: Some(reader),
            ended: None,
        })
    }

    /// Opens it for one of several passes.
    ///
    /// # Errors
    /// If it cannot be read, or not twice.
    pub fn open_file(path: &'a Path) -> Result<Recording<'a>> {
        let recording = Recording::open(path)?;
        if !path.is_file() {
            return Err(UsageError(format!(
                "{}: it is read twice, and this is no file: save it as one",
                say::name_of(path)
            ))
            .into());
        }
        Ok(recording)
    }

    /// Reads all of it for how long it measured. What cannot be read is reported when it is read for good.
    pub fn span(&mut self) -> Span {
        let mut span = Span::default();
        self.until(|event| {
            span.push(event);
            ControlFlow::<Infallible>::Continue(())
        });
        span
    }

    /// The next event; `None` where it ends, be it by a fault.
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

    /// Hands out every event that is left. A fault of the recording ends it, as its end does.
    ///
    /// # Errors
    /// The first of `on_event`.
    pub fn each(&mut self, mut on_event: impl FnMut(&Event) -> Result<()>) -> Result<()> {
        let failed = self.until(|event| match on_event(event) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        });
        failed.map_or(Ok(()), Err)
    }

    /// Has it explained to its end. `view` hears of each event, and of all that becomes certain.
    pub fn explain(&mut self, explaining: &mut Explaining, view: &mut dyn View) {
        self.until(|event| {
            view.event(event);
            explaining.push(event, view);
            ControlFlow::<Infallible>::Continue(())
        });
        explaining.run_out(view);
    }

    /// Hands out events until `f` breaks off, and returns with what; `None` where the recording ended.
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

    /// How reading ended, if it has; it is reported once.
    pub fn ended(&mut self) -> Option<Result<Ending, ReadError>> {
        self.ended.take()
    }

    /// Says what of it is not in the result.
    ///
    /// # Errors
    /// The fault at which reading ended.
    pub fn report_ending(&mut self) -> Result<()> {
        let ending = self.ended().transpose();
        let ending = ending.map_err(|error| name_file(error, self.path))?;
        if let Some(Ending::CutOff { .. }) = ending {
            say::say(format_args!(
                "{}: the run that wrote this was cut off; the result covers what it had flushed",
                say::name_of(self.path)
            ));
        }
        Ok(())
    }

    /// As [`Self::report_ending`], a fault as well.
    pub fn report(&mut self) -> Status {
        match self.report_ending() {
            Ok(()) => Status::Ok,
            Err(fault) => Status::of_error(&fault),
        }
    }
}

/// Faults of the content do not know the name of their file.
fn name_file(error: ReadError, path: &Path) -> anyhow::Error {
    match error {
        ReadError::Open { .. } => error.into(),
        _ => anyhow::Error::new(error).context(say::name_of(path)),
    }
}
