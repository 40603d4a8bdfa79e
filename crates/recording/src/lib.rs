//! The recording: all events of a run in an Arrow IPC stream. The writer flushes the stream during
//! the run. The recording of a killed run can therefore be read up to the last flush.
//!
//! `docs/recording-format.md` describes the format for readers in any language. Batches carry a
//! running checksum. A batch with a wrong checksum is never returned.
#![forbid(unsafe_code)]

mod checksum;
mod columns;
mod decode;
mod definitions;
mod error;
mod header;
mod limits;
mod messages;
mod reader;
mod rows;
mod schema;
mod seal;
mod writer;

pub use error::{ReadError, WriteError};
pub use reader::{RecordingEnd, RecordingReader};
pub use schema::FORMAT_VERSION;
#[doc(hidden)]
pub use seal::seal;
pub use writer::Writer;
