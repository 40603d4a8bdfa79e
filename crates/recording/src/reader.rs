//! A file back into events, batch by batch.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::read_record_batch;
use arrow_ipc::{MetadataVersion, root_as_message};
use arrow_schema::{Schema, SchemaRef};
use vmnoise_events::{Event, RunFacts};

use crate::checksum;
use crate::error::ReadError;
use crate::messages::{Fault, Message, Messages, Next};
use crate::rows::Rows;
use crate::schema::{FORMAT_VERSION, keys, schema};

/// How a recording that reads back without a fault ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With its end marker: the writer finished.
    Complete,
    /// Between two batches: the writer was killed, and all it flushed is here.
    CutOff {
        /// How many batches there are.
        batches: u64,
    },
}

/// Reads a recording in one pass, holding one batch at a time.
pub struct Reader<R: Read> {
    messages: Messages<R>,
    schema: SchemaRef,
    facts: RunFacts,
    checksum: u32,
    batches: u64,
    sources: u32,
    ending: Option<Ending>,
}

impl Reader<File> {
    /// Opens a recording and reads its header.
    ///
    /// # Errors
    /// [`ReadError::Open`] where the file cannot be opened, otherwise as
    /// [`new`](Reader::new).
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let file = File::open(path).map_err(|error| ReadError::Open {
            path: path.to_owned(),
            error,
        })?;
        Reader::new(file)
    }
}

impl<R: Read> Reader<R> {
    /// Reads the header. `input` needs no buffer: it is read a batch at a time.
    ///
    /// # Errors
    /// Every kind of [`ReadError`] but [`ReadError::Open`].
    pub fn new(input: R) -> Result<Self, ReadError> {
        let mut messages = Messages::new(input);
        let message = match messages.next() {
            Ok(Next::Message(message)) => message,
            Ok(Next::EndOfFile) => return Err(foreign("it is empty")),
            Ok(Next::EndMarker) => return Err(foreign("it is an Arrow stream without a schema")),
            Err(Fault::Foreign(start)) => return Err(foreign(looks_like(start))),
            Err(Fault::Corrupt(what)) => return Err(foreign(&what)),
            Err(fault) => return Err(read_error(fault, 0, messages.at())),
        };
        let found = decode_schema(&message)?;
        check_version(&found)?;
        let (facts, checksum) = decode_facts(&found)?;
        let schema = schema(HashMap::new());
        if found.fields() != schema.fields() {
            return Err(damaged_header(format!(
                "its columns are not those of format version {FORMAT_VERSION}"
            )));
        }
        Ok(Reader {
            messages,
            schema,
            facts,
            checksum,
            batches: 0,
            sources: 0,
            ending: None,
        })
    }

    /// What was true of the machine and the run before the first event.
    pub fn facts(&self) -> &RunFacts {
        &self.facts
    }

    /// Replaces `events` by those of the next batch; `false` at the end.
    ///
    /// # Errors
    /// As [`for_each`](Reader::for_each); `events` then holds what could be read
    /// of the batch.
    pub fn next_batch(&mut self, events: &mut Vec<Event>) -> Result<bool, ReadError> {
        events.clear();
        self.batch(&mut |event| events.push(event))
    }

    /// Hands every event that is left to `f`, in their order.
    ///
    /// # Errors
    /// [`ReadError::Truncated`], [`ReadError::Corrupt`] or [`ReadError::Io`], after
    /// everything before the fault has been handed to `f`.
    pub fn for_each(&mut self, f: &mut dyn FnMut(&Event)) -> Result<Ending, ReadError> {
        while self.batch(&mut |event| f(&event))? {}
        Ok(self.ending.unwrap_or(Ending::CutOff {
            batches: self.batches,
        }))
    }

    fn batch(&mut self, f: &mut dyn FnMut(Event)) -> Result<bool, ReadError> {
        if self.ending.is_some() {
            return Ok(false);
        }
        let message = match self.messages.next() {
            Ok(Next::Message(message)) => message,
            Ok(Next::EndMarker) => {
                self.ending = Some(Ending::Complete);
                return Ok(false);
            }
            Ok(Next::EndOfFile) => {
                self.ending = Some(Ending::CutOff {
                    batches: self.batches,
                });
                return Ok(false);
            }
            Err(fault) => return Err(read_error(fault, self.batches, self.messages.at())),
        };
        self.replay(&message, f)
            .map_err(|what| ReadError::Corrupt {
                batch: self.batches + 1,
                what,
            })?;
        self.batches += 1;
        Ok(true)
    }

    fn replay(&mut self, message: &Message, f: &mut dyn FnMut(Event)) -> Result<(), String> {
        let batch = decode_batch(message, &self.schema)?;
        let rows = Rows::new(&batch);
        let checksum = checksum::of_batch(self.checksum, &batch);
        if rows.checksum()? != u64::from(checksum) {
            return Err("its checksum does not fit its data".to_owned());
        }
        self.checksum = checksum;
        for event in rows.events() {
            let event = event?;
            self.check_sources(&event)?;
            f(event);
        }
        Ok(())
    }

    fn check_sources(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::Source(source) if source.id.0 == self.sources => self.sources += 1,
            Event::Source(source) => {
                return Err(format!(
                    "source {} is out of order after {} sources",
                    source.id.0, self.sources
                ));
            }
            Event::Activity(activity) if activity.source.0 >= self.sources => {
                return Err(format!("source {} is not defined", activity.source.0));
            }
            _ => {}
        }
        Ok(())
    }
}

impl<R: Read> std::fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("batches", &self.batches)
            .field("sources", &self.sources)
            .field("ending", &self.ending)
            .finish_non_exhaustive()
    }
}

fn decode_schema(message: &Message) -> Result<Schema, ReadError> {
    let header = root_as_message(&message.metadata)
        .ok()
        .and_then(|message| message.header_as_schema())
        .ok_or_else(|| foreign("it is an Arrow stream that does not start with a schema"))?;
    try_fb_to_schema(header).map_err(|error| foreign(&format!("its schema is not valid: {error}")))
}

fn check_version(schema: &Schema) -> Result<(), ReadError> {
    let text = schema.metadata.get(keys::VERSION).ok_or_else(|| {
        foreign("it is an Arrow stream of another program, without vmnoise's keys")
    })?;
    match text.parse() {
        Ok(FORMAT_VERSION) => Ok(()),
        Ok(found) if found > FORMAT_VERSION => Err(ReadError::NewerFormat {
            found,
            known: FORMAT_VERSION,
        }),
        _ => Err(damaged_header(format!("`{text}` is no format version"))),
    }
}

/// The facts and their checksum.
fn decode_facts(schema: &Schema) -> Result<(RunFacts, u32), ReadError> {
    let text = |key: &str| {
        let text = schema.metadata.get(key);
        text.ok_or_else(|| damaged_header(format!("it lacks `{key}`")))
    };
    let facts = text(keys::FACTS)?;
    let checksum = checksum::of_facts(facts);
    if text(keys::FACTS_CRC32)?.parse() != Ok(checksum) {
        return Err(damaged_header(
            "the checksum does not fit the facts".to_owned(),
        ));
    }
    let facts = serde_json::from_str(facts)
        .map_err(|error| damaged_header(format!("the facts are not understood: {error}")))?;
    Ok((facts, checksum))
}

/// Arrow's decoder trusts the numbers in a message's metadata and panics where
/// they lead outside the body, so they are checked against the body first.
fn decode_batch(message: &Message, schema: &SchemaRef) -> Result<RecordBatch, String> {
    let header = root_as_message(&message.metadata).map_err(|error| error.to_string())?;
    let version = header.version();
    let batch = header
        .header_as_record_batch()
        .ok_or("a message that is no batch")?;
    let available = message.body.len() as i64;
    let within = |length: i64| (0..=available).contains(&length);
    let nodes_fit = batch
        .nodes()
        .into_iter()
        .flatten()
        .all(|node| within(node.length()) && (0..=node.length()).contains(&node.null_count()));
    let buffers_fit = batch.buffers().into_iter().flatten().all(|buffer| {
        within(buffer.offset())
            && within(buffer.length())
            && within(buffer.offset() + buffer.length())
    });
    let plain = batch.compression().is_none() && version == MetadataVersion::V5;
    if !(within(batch.length()) && nodes_fit && buffers_fit && plain) {
        return Err("its metadata does not fit its data".to_owned());
    }
    read_record_batch(
        &message.body,
        batch,
        schema.clone(),
        &HashMap::new(),
        None,
        &version,
    )
    .map_err(|error| error.to_string())
}

fn read_error(fault: Fault, batches_read: u64, at: u64) -> ReadError {
    match fault {
        Fault::Truncated => ReadError::Truncated { batches_read, at },
        Fault::Io(error) => ReadError::Io {
            batches_read,
            error,
        },
        Fault::Foreign(_) => ReadError::Corrupt {
            batch: batches_read + 1,
            what: "no message starts where one should".to_owned(),
        },
        Fault::Corrupt(what) => ReadError::Corrupt {
            batch: batches_read + 1,
            what,
        },
    }
}

fn foreign(what: &str) -> ReadError {
    ReadError::NotARecording {
        what: what.to_owned(),
    }
}

fn damaged_header(what: String) -> ReadError {
    ReadError::Corrupt { batch: 0, what }
}

/// What a file with these first bytes is.
fn looks_like(start: [u8; 4]) -> &'static str {
    match &start {
        b"ARRO" => "it is an Arrow file, not an Arrow stream",
        b"PAR1" => "it is a Parquet file",
        b"\x7fELF" => "it is a program",
        [0x1f, 0x8b, ..] | b"\x28\xb5\x2f\xfd" => "it is compressed, decompress it first",
        bytes if bytes.is_ascii() => "it looks like text",
        _ => "it is no Arrow stream",
    }
}
