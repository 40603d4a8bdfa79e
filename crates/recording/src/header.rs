//! Decodes the first message of a file: checks that the file is a recording, and returns the facts.

use std::collections::HashMap;

use arrow_ipc::convert::try_fb_to_schema;
use arrow_schema::{Schema, SchemaRef};
use vmnoise_events::RunFacts;

use crate::checksum;
use crate::decode::first_line;
use crate::error::ReadError;
use crate::limits;
use crate::messages::{Fault, Message, Next};
use crate::schema::{FORMAT_VERSION, keys, schema};

/// Content of a recording's header.
pub(crate) struct Header {
    pub schema: SchemaRef,
    pub facts: RunFacts,
    /// Checksum of the facts. The checksum of the first batch continues from this value.
    pub checksum: u32,
}

impl Header {
    /// Decodes the header. `at` is the number of bytes that were read so far.
    pub fn decode(first: Result<Next, Fault>, at: u64) -> Result<Header, ReadError> {
        let message = match first {
            Ok(Next::Message(message)) => message,
            Ok(Next::EndOfFile) => return Err(foreign("it is empty")),
            Ok(Next::EndMarker) => return Err(foreign("it is an Arrow stream without a schema")),
            Err(Fault::Foreign(start)) => return Err(foreign(looks_like(start))),
            Err(Fault::Corrupt(what)) => {
                return Err(foreign(&format!(
                    "it starts like an Arrow stream, but {what}"
                )));
            }
            Err(fault) => return Err(ReadError::from_fault(fault, 0, at)),
        };
        let found = decode_schema(&message)?;
        let version = version_of(&found)?;
        let (facts, checksum) = decode_facts(&found)?;
        let schema = schema(version, HashMap::new());
        if found.fields() != schema.fields() {
            return Err(damaged(format!(
                "its columns are not those of format version {version}"
            )));
        }
        Ok(Header {
            schema,
            facts,
            checksum,
        })
    }
}

/// Returns the format version and the facts in this message. The facts are not checked.
pub(crate) fn keys_of(message: &Message) -> Option<(u32, String)> {
    let schema = decode_schema(message).ok()?;
    let facts = schema.metadata.get(keys::FACTS)?.clone();
    Some((version_of(&schema).ok()?, facts))
}

fn decode_schema(message: &Message) -> Result<Schema, ReadError> {
    let header = message.header();
    let schema = header
        .and_then(|header| header.header_as_schema())
        .ok_or_else(|| foreign("it is an Arrow stream that does not start with a schema"))?;
    try_fb_to_schema(schema)
        .map_err(|error| foreign(&format!("its schema is not valid: {}", first_line(&error))))
}

fn version_of(schema: &Schema) -> Result<u32, ReadError> {
    let text = schema.metadata.get(keys::VERSION).ok_or_else(|| {
        foreign("it is an Arrow stream of another program, without vmnoise's keys")
    })?;
    match text.parse() {
        Ok(version @ 1..=FORMAT_VERSION) => Ok(version),
        Ok(found) if found > FORMAT_VERSION => Err(ReadError::NewerFormat {
            found,
            known: FORMAT_VERSION,
        }),
        _ => Err(damaged(format!("{text:?} is no format version"))),
    }
}

fn decode_facts(schema: &Schema) -> Result<(RunFacts, u32), ReadError> {
    let text = |key: &str| {
        let text = schema.metadata.get(key);
        text.ok_or_else(|| damaged(format!("it lacks `{key}`")))
    };
    let facts = text(keys::FACTS)?;
    limits::check_length(facts).map_err(damaged)?;
    let checksum = checksum::of_facts(facts);
    if text(keys::FACTS_CRC32)?.parse() != Ok(checksum) {
        return Err(damaged("the checksum does not fit the facts".to_owned()));
    }
    let facts: RunFacts = serde_json::from_str(facts)
        .map_err(|error| damaged(format!("the facts are not understood: {error}")))?;
    limits::check(&facts).map_err(damaged)?;
    Ok((facts, checksum))
}

fn foreign(what: &str) -> ReadError {
    ReadError::NotARecording {
        what: what.to_owned(),
    }
}

fn damaged(what: String) -> ReadError {
    ReadError::Corrupt { batch: 0, what }
}

/// Returns the kind of a file with these first bytes.
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
