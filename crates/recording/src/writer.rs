//! Events into a file, batch by batch.

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

/// Rows of a full batch: about 1.4 MB, small beside what a reader may hold and
/// large enough that the overhead of a batch (about 3 kB) does not matter.
const BATCH_ROWS: usize = 16 * 1024;

/// The least that Arrow allows; batches flushed early stay small with it.
const ALIGNMENT_BYTES: usize = 8;

/// Writes a recording. What was flushed survives the death of this process;
/// dropping the writer without [`finish`](Writer::finish) leaves a recording
/// that reads back as cut off after its last flush.
pub struct Writer<W: Write> {
    output: W,
    /// Arrow writes each message here in many pieces; it reaches `output` in one.
    stream: StreamWriter<Vec<u8>>,
    schema: SchemaRef,
    columns: Columns,
    checksum: u32,
    /// `None` where whatever comes is written.
    definitions: Option<Definitions>,
}

impl Writer<File> {
    /// Creates (or empties) the file and writes the header, so that a path that
    /// cannot be written fails before anything is measured.
    ///
    /// # Errors
    /// [`WriteError::Create`] where the file cannot be created, otherwise as
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
    /// Starts a recording by writing its header, which holds the facts. No other
    /// buffer is needed around `output`: it gets one write per batch.
    ///
    /// # Errors
    /// [`WriteError::Io`] where the output refuses.
    pub fn new(output: W, facts: &RunFacts) -> Result<Self, WriteError> {
        let definitions = Definitions::new(facts);
        let writer = Writer::unchecked(output, facts)?;
        Ok(Writer {
            definitions: Some(definitions),
            ..writer
        })
    }

    /// As `new`, for a recording that no recorder makes: it takes any event. Tests and fuzzers hand such
    /// a file to readers.
    ///
    /// # Errors
    /// [`WriteError::Io`] where the output refuses.
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

    /// Adds one event; a full batch is written out.
    ///
    /// # Errors
    /// [`WriteError::Order`] for a source or vCPU that is not the next in order, or
    /// an event whose source or vCPU was not defined, and [`WriteError::Cpu`] for one of a CPU
    /// that the facts do not list; the event is not recorded.
    /// [`WriteError::Io`] where the output refuses a batch.
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

    /// Hands everything so far to the kernel as one batch: it survives SIGKILL,
    /// not a power cut. Does nothing if no event is waiting.
    ///
    /// # Errors
    /// [`WriteError::Io`] where the output refuses.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        if self.columns.rows() == 0 {
            return Ok(());
        }
        let (batch, checksum) = self.columns.seal(self.schema.clone(), self.checksum)?;
        self.checksum = checksum;
        self.stream.write(&batch)?;
        self.write_staged()
    }

    /// Where it writes to.
    pub fn get_ref(&self) -> &W {
        &self.output
    }

    /// Flushes, writes the end marker and gives the output back.
    ///
    /// # Errors
    /// [`WriteError::Io`] where the output refuses.
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

/// The columns of a version, with all that a header says.
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

/// A stream in memory that begins with its header.
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
