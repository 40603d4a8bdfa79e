//! The recording: every event of a run in an Arrow IPC stream, flushed as it
//! goes, so that a killed run reads back to its last flush.
//!
//! The format is described for readers in any language in
//! `docs/recording-format.md`. Batches carry a running checksum; a batch that
//! fails it is never handed out.
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
pub use reader::{Ending, Reader};
pub use schema::FORMAT_VERSION;
#[doc(hidden)]
pub use seal::seal;
pub use writer::Writer;
