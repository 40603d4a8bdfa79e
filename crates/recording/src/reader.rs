//! Reads a file back to events, batch by batch.

use std::convert::Infallible;
use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;

use vmnoise_events::{Event, RunFacts};

use crate::checksum;
use crate::decode::Decoder;
use crate::definitions::Definitions;
use crate::error::ReadError;
use crate::header::Header;
use crate::messages::{Message, Messages, Next};
use crate::rows::Rows;

/// End of a recording without faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordingEnd {
    /// The file ends with the end marker, so the writer finished.
    Complete,
    /// The file ends between two batches. The writer was killed, and the file has all batches that
    /// the writer flushed.
    CutOff {
        /// Number of batches in the file.
        batches: u64,
    },
}

/// Reader of a recording in one pass, with one batch in memory at a time.
pub struct RecordingReader<R: Read> {
    messages: Messages<R>,
    decoder: Decoder,
    facts: RunFacts,
    checksum: u32,
    /// Number of batches read so far.
    batches: u64,
    /// Rows of the last batch.
    rows: Option<Rows>,
    definitions: Definitions,
    ending: Option<RecordingEnd>,
}

impl RecordingReader<File> {
    /// Opens a recording and reads its header.
    ///
    /// # Errors [`ReadError::Open`] if the file cannot be opened, otherwise as
    /// [`new`](RecordingReader::new).
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let file = File::open(path).map_err(|error| ReadError::Open {
            path: path.to_owned(),
            error,
        })?;
        RecordingReader::new(file)
    }
}

impl<R: Read> RecordingReader<R> {
    /// Creates a reader, and reads the header. `input` needs no buffer, because the reader reads
    /// one batch at a time.
    ///
    /// # Errors Every kind of [`ReadError`] except [`ReadError::Open`].
    pub fn new(input: R) -> Result<Self, ReadError> {
        let mut messages = Messages::new(input);
        let header = Header::decode(messages.next(), messages.at())?;
        let definitions = Definitions::new(&header.facts);
        Ok(RecordingReader {
            messages,
            decoder: Decoder::new(header.schema),
            facts: header.facts,
            checksum: header.checksum,
            batches: 0,
            rows: None,
            definitions,
            ending: None,
        })
    }

    /// Returns the facts about the machine and the run before the first event.
    pub fn facts(&self) -> &RunFacts {
        &self.facts
    }

    /// Returns the next event, or the end of the recording.
    ///
    /// # Errors
    /// [`ReadError::Truncated`], [`ReadError::Corrupt`] or [`ReadError::Io`], after everything
    /// before the fault has been returned. Do not read on after an error: the rest cannot be
    /// trusted.
    pub fn next_event(&mut self) -> Result<ControlFlow<RecordingEnd, Event>, ReadError> {
        loop {
            // An event is large, so it is not moved between the columns and the caller.
            match self.rows.as_mut().and_then(Rows::next_event) {
                Some(Ok(event)) => {
                    self.check(&event)?;
                    return Ok(ControlFlow::Continue(event));
                }
                Some(Err(what)) => return Err(self.corrupt(what)),
                None => {}
            }
            if let Some(ending) = self.next_batch()? {
                return Ok(ControlFlow::Break(ending));
            }
        }
    }

    /// Passes all remaining events to `f`, in their order. Returns the end of the recording.
    ///
    /// # Errors As [`next_event`](RecordingReader::next_event).
    pub fn for_each(&mut self, f: &mut dyn FnMut(&Event)) -> Result<RecordingEnd, ReadError> {
        let read = self.try_for_each(|event| {
            f(event);
            ControlFlow::<Infallible>::Continue(())
        })?;
        let ControlFlow::Continue(ending) = read;
        Ok(ending)
    }

    /// Passes the remaining events to `f` in their order, until `f` breaks off. Returns the end of
    /// the recording if `f` never breaks off.
    ///
    /// # Errors As [`next_event`](RecordingReader::next_event).
    pub fn try_for_each<B>(
        &mut self,
        mut f: impl FnMut(&Event) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B, RecordingEnd>, ReadError> {
        loop {
            while let Some(rows) = &mut self.rows {
                // An event is large, and there are millions of events, so events are not moved.
                match &rows.next_event() {
                    Some(Ok(event)) => {
                        let checked = self.definitions.check(event);
                        checked.map_err(|undefined| self.corrupt(undefined.to_string()))?;
                        if let ControlFlow::Break(broken_off) = f(event) {
                            return Ok(ControlFlow::Break(broken_off));
                        }
                    }
                    Some(Err(what)) => return Err(self.corrupt(what.clone())),
                    None => break,
                }
            }
            if let Some(ending) = self.next_batch()? {
                return Ok(ControlFlow::Continue(ending));
            }
        }
    }

    /// Reads the next batch. Returns the end of the recording if there is no further batch.
    fn next_batch(&mut self) -> Result<Option<RecordingEnd>, ReadError> {
        if self.ending.is_none() {
            // The next batch reuses the memory of the last batch.
            self.rows = None;
            match self.messages.next() {
                Ok(Next::Message(message)) => {
                    self.batches += 1;
                    let rows = self.decode(&message);
                    self.rows = Some(rows.map_err(|what| self.corrupt(what))?);
                }
                Ok(Next::EndMarker) => self.ending = Some(RecordingEnd::Complete),
                Ok(Next::EndOfFile) => {
                    let batches = self.batches;
                    self.ending = Some(RecordingEnd::CutOff { batches });
                }
                Err(fault) => {
                    let at = self.messages.at();
                    return Err(ReadError::from_fault(fault, self.batches, at));
                }
            }
        }
        Ok(self.ending)
    }

    fn decode(&mut self, message: &Message) -> Result<Rows, String> {
        let batch = self.decoder.decode(message)?;
        let rows = Rows::new(&batch);
        let checksum = checksum::of_batch(self.checksum, &batch);
        if rows.checksum()? != u64::from(checksum) {
            return Err("its checksum does not fit its data".to_owned());
        }
        self.checksum = checksum;
        Ok(rows)
    }

    /// Checks that an event refers only to sources, vCPUs and CPUs that are defined.
    fn check(&mut self, event: &Event) -> Result<(), ReadError> {
        let checked = self.definitions.check(event);
        checked.map_err(|undefined| self.corrupt(undefined.to_string()))
    }

    fn corrupt(&self, what: String) -> ReadError {
        let batch = self.batches;
        ReadError::Corrupt { batch, what }
    }
}

impl<R: Read> std::fmt::Debug for RecordingReader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordingReader")
            .field("batches", &self.batches)
            .field("definitions", &self.definitions)
            .field("ending", &self.ending)
            .finish_non_exhaustive()
    }
}
