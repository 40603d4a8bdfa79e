//! Writes events to a file, batch by batch.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use vmnoise_events::{Event, RunFacts};

use crate::checksum;
use crate::columns::Columns;
use crate::definitions::Definitions;
use crate::error::WriteError;
use crate::schema::{FORMAT_VERSION, keys, schema};

/// Number of rows of a full batch, which takes about 1.4 MB. This is small compared with the memory
/// of a reader. It is large compared with the overhead of a batch (about 3 kB).
const BATCH_ROWS: usize = 16 * 1024;

/// Smallest alignment that Arrow allows, in bytes. A small alignment keeps early batches small.
const ALIGNMENT_BYTES: usize = 8;

/// Writer of a recording. Flushed events survive the death of this process. If the writer is
/// dropped without [`finish`](Writer::finish), the recording reads back as cut off after its last
/// flush.
pub struct Writer<W: Write> {
    output: W,
    /// Buffer to which Arrow writes a message in many pieces, so that `output` gets the message in
    /// one piece.
    stream: StreamWriter<Vec<u8>>,
    schema: SchemaRef,
    columns: Columns,
    checksum: u32,
    /// `None` if events are written without checks.
    definitions: Option<Definitions>,
}

impl Writer<File> {
    /// Creates (or empties) the file and writes the header. An invalid path therefore fails before
    /// the measurement begins.
    ///
    /// # Errors [`WriteError::Create`] if the file cannot be created, otherwise as
    /// [`new`](Writer::new).
    pub fn create(path: &Path, facts: &RunFacts) -> Result<Self, WriteError> {
        let file = File::create(path).map_err(|error| WriteError::Create {
            path: path.to_owned(),
            error,
        })?;
        Writer::new(file, facts)
    }
}

impl<W: Write> Writer<W> {
    /// Starts a recording by writing its header, which holds the facts. `output` needs no other
    /// buffer, because it gets one write per batch.
    ///
    /// # Errors [`WriteError::Io`] if the output refuses.
    pub fn new(output: W, facts: &RunFacts) -> Result<Self, WriteError> {
        let definitions = Definitions::new(facts);
        let writer = Writer::unchecked(output, facts)?;
        Ok(Writer {
            definitions: Some(definitions),
            ..writer
        })
    }

    /// Starts a recording like [`new`](Writer::new), but accepts any event, even events that no
    /// recorder writes. Tests and fuzzers pass such files to readers.
    ///
    /// # Errors [`WriteError::Io`] if the output refuses.
    #[doc(hidden)]
    pub fn unchecked(output: W, facts: &RunFacts) -> Result<Self, WriteError> {
        let facts = serde_json::to_string(facts).expect("facts have string keys only");
        let checksum = checksum::of_facts(&facts);
        let schema = described(FORMAT_VERSION, facts);
        let mut writer = Writer {
            output,
            stream: begin(&schema)?,
            schema,
            columns: Columns::new(),
            checksum,
            definitions: None,
        };
        writer.write_staged()?;
        Ok(writer)
    }

    /// Adds one event; a full batch is written.
    ///
    /// # Errors
    /// On an error of the first two kinds, the event is not recorded.
    ///
    /// - [`WriteError::Order`] if a source or vCPU is not the next in order, or an event refers to
    ///   an undefined one.
    /// - [`WriteError::Cpu`] if the facts do not list the event's CPU.
    /// - [`WriteError::Io`] if the output refuses a batch.
    pub fn push(&mut self, event: &Event) -> Result<(), WriteError> {
        if let Some(definitions) = &mut self.definitions {
            definitions.check(event)?;
        }
        self.columns.append(event);
        if self.columns.rows() >= BATCH_ROWS {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes all waiting events to the kernel as one batch. This batch survives SIGKILL, but not a
    /// power cut. Does nothing if no event is waiting.
    ///
    /// # Errors [`WriteError::Io`] if the output refuses.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        if self.columns.rows() == 0 {
            return Ok(());
        }
        let (batch, checksum) = self.columns.seal(self.schema.clone(), self.checksum)?;
        self.checksum = checksum;
        self.stream.write(&batch)?;
        self.write_staged()
    }

    /// Returns the output.
    pub fn get_ref(&self) -> &W {
        &self.output
    }

    /// Flushes, writes the end marker and returns the output.
    ///
    /// # Errors
    /// [`WriteError::Io`] if the output refuses.
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.flush()?;
        self.stream.finish()?;
        self.write_staged()?;
        Ok(self.output)
    }

    fn write_staged(&mut self) -> Result<(), WriteError> {
        let staged = self.stream.get_mut();
        self.output.write_all(staged)?;
        staged.clear();
        Ok(self.output.flush()?)
    }
}

/// Returns the columns of a version, as a schema with the metadata of a header.
pub(crate) fn described(version: u32, facts: String) -> SchemaRef {
    let checksum = checksum::of_facts(&facts).to_string();
    let metadata = [
        (keys::VERSION, version.to_string()),
        (keys::FACTS, facts),
        (keys::FACTS_CRC32, checksum),
    ];
    let metadata = metadata.map(|(key, value)| (key.to_owned(), value));
    schema(version, HashMap::from(metadata))
}

/// Begins a stream in memory with its header.
pub(crate) fn begin(schema: &Schema) -> Result<StreamWriter<Vec<u8>>, ArrowError> {
    let options = IpcWriteOptions::try_new(ALIGNMENT_BYTES, false, MetadataVersion::V5)?;
    StreamWriter::try_new_with_options(Vec::new(), schema, options)
}

impl<W: Write> std::fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("waiting_rows", &self.columns.rows())
            .field("definitions", &self.definitions)
            .finish_non_exhaustive()
    }
}
