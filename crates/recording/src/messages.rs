//! The framing of an Arrow IPC stream: metadata and body of one message at a time, with the
//! position in the file.
//!
//! Arrow's own stream reader treats a cut stream as complete, and trusts the lengths in the stream.
//! This module trusts a length only as far as the file has the bytes.

use std::io::{self, Read};

use arrow_buffer::Buffer;
use arrow_ipc::root_as_message_with_opts;
use flatbuffers::VerifierOptions;

/// First bytes of each message.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Maximum memory in bytes that is allocated before the bytes of a message are known to exist. This
/// is more than any batch of vmnoise's writer needs.
const TRUSTED_BYTES: usize = 4 << 20;

/// Maximum length of metadata in bytes, for the facts (see `limits.rs`) and the columns.
const METADATA_BYTES: usize = 20 << 20;
/// Maximum length of a body in bytes. The 16,384 rows of vmnoise's writer with a name of 512 bytes
/// each take 10 MB, followed by the rows of the last totals.
const BODY_BYTES: i64 = 64 << 20;
/// Maximum mean number of parts of metadata that refer to the same byte. In the metadata of
/// vmnoise's writer, only the descriptions of a table share bytes.
const SHARED: usize = 16;

/// Next element of the stream.
pub(crate) enum Next {
    Message(Message),
    /// The writer finished the stream, and nothing follows.
    EndMarker,
    /// The file ends between two messages.
    EndOfFile,
}

/// One message that is not yet decoded. `metadata` encodes a `Message` of Arrow.
pub(crate) struct Message {
    pub metadata: Vec<u8>,
    pub body: Buffer,
}

impl Message {
    /// Returns the decoded metadata of the message; `None` if the metadata are invalid or their
    /// decoded size is not plausible. Bytes to which many parts refer would be copied many times,
    /// so the size is checked.
    pub fn header(&self) -> Option<arrow_ipc::Message<'_>> {
        header(&self.metadata)
    }
}

fn header(metadata: &[u8]) -> Option<arrow_ipc::Message<'_>> {
    let options = VerifierOptions {
        max_apparent_size: metadata.len().saturating_mul(SHARED),
        ..VerifierOptions::default()
    };
    root_as_message_with_opts(&options, metadata).ok()
}

/// Reason why there is no next message.
pub(crate) enum Fault {
    /// A message should begin here, but the file has these bytes.
    Foreign([u8; 4]),
    /// The file ends inside a message.
    Truncated,
    Corrupt(String),
    Io(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::Io(error)
    }
}

/// Messages of a stream, in order.
pub(crate) struct Messages<R> {
    input: R,
    /// Number of bytes read so far.
    at: u64,
    /// Body of the last message. If nothing else uses the memory of this body, the next body is
    /// read into it.
    last_body: Buffer,
}

impl<R: Read> Messages<R> {
    pub fn new(input: R) -> Messages<R> {
        Messages {
            input,
            at: 0,
            last_body: Buffer::default(),
        }
    }

    /// Returns the number of bytes read so far.
    pub fn at(&self) -> u64 {
        self.at
    }

    pub fn next(&mut self) -> Result<Next, Fault> {
        let start = self.take(4)?;
        match <[u8; 4]>::try_from(start.as_slice()) {
            Ok(CONTINUATION) => {}
            Ok(other) => return Err(Fault::Foreign(other)),
            Err(_) if start.is_empty() => return Ok(Next::EndOfFile),
            Err(_) if start.iter().all(|byte| *byte == 0xff) => return Err(Fault::Truncated),
            Err(_) => {
                let mut found = [0; 4];
                found[..start.len()].copy_from_slice(&start);
                return Err(Fault::Foreign(found));
            }
        }
        let length = <[u8; 4]>::try_from(self.take(4)?).map_err(|_| Fault::Truncated)?;
        let metadata = match i32::from_le_bytes(length) {
            0 if self.take(1)?.is_empty() => return Ok(Next::EndMarker),
            0 => return Err(Fault::Corrupt("data follows the end marker".to_owned())),
            length => {
                let most = METADATA_BYTES as i64;
                self.exactly("metadata", length.into(), most, Vec::new())?
            }
        };
        let Some(body_bytes) = header(&metadata).map(|header| header.bodyLength()) else {
            let what = "a message's metadata is not valid".to_owned();
            return Err(Fault::Corrupt(what));
        };
        let spare = std::mem::take(&mut self.last_body).into_vec();
        let spare = spare.unwrap_or_default();
        let body = Buffer::from(self.exactly("data", body_bytes, BODY_BYTES, spare)?);
        self.last_body = body.clone();
        Ok(Next::Message(Message { metadata, body }))
    }

    fn exactly(
        &mut self,
        what: &str,
        bytes: i64,
        most: i64,
        spare: Vec<u8>,
    ) -> Result<Vec<u8>, Fault> {
        let wanted = usize::try_from(bytes).ok().filter(|_| bytes <= most);
        let wanted = wanted.ok_or_else(|| {
            Fault::Corrupt(format!(
                "a message of {bytes} bytes of {what}, which none has"
            ))
        })?;
        let found = self.take_into(spare, wanted)?;
        if found.len() < wanted {
            return Err(Fault::Truncated);
        }
        Ok(found)
    }

    /// Reads and returns `bytes` bytes, or fewer if the file ends.
    fn take(&mut self, bytes: usize) -> io::Result<Vec<u8>> {
        self.take_into(Vec::new(), bytes)
    }

    /// Reads like [`Self::take`], but into the memory of `found`. Only memory beyond the length of
    /// `found` must be cleared.
    fn take_into(&mut self, mut found: Vec<u8>, bytes: usize) -> io::Result<Vec<u8>> {
        found.truncate(bytes);
        let mut read = 0;
        while read < bytes {
            if read == found.len() {
                found.resize(bytes.min(read + TRUSTED_BYTES), 0);
            }
            match self.input.read(&mut found[read..]) {
                Ok(0) => break,
                Ok(count) => read += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        found.truncate(read);
        self.at += read as u64;
        Ok(found)
    }
}
