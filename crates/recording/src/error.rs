//! Errors of a recording, each in one line with its remedy.

use std::io;
use std::path::PathBuf;

use arrow_schema::ArrowError;
use vmnoise_events::ShownLine;

use crate::definitions::Undefined;
use crate::messages::Fault;

/// Reason why a recording could not be written. After an error, the recording ends at the last
/// batch that was written completely. The caller should then drop the writer.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file could not be created.
    #[error("cannot create the recording {path}: {error}; name a file in a folder you may write to", path = ShownLine::from(.path.as_path()))]
    Create {
        /// Requested path.
        path: PathBuf,
        /// Error of the kernel.
        error: io::Error,
    },
    /// The file was created but refused data, for example because the disk is full or a quota is
    /// reached.
    #[error("cannot write to the recording, which is readable up to its last complete batch")]
    Io(#[from] io::Error),
    /// No reader would accept this event. Sources and vCPUs must be numbered in order from 0, and
    /// defined before their first use.
    #[error("{what} {id} is out of order, {defined} are defined; report this as a bug")]
    Order {
        /// Kind of the definition: `source` or `vCPU`.
        what: &'static str,
        /// The invalid id.
        id: u32,
        /// Number of definitions of this kind in the recording so far.
        defined: u32,
    },
    /// No reader would accept an event of this CPU.
    #[error("the header lists no CPU {cpu}; report this as a bug")]
    Cpu {
        /// Number of the CPU.
        cpu: u32,
    },
    /// Arrow refused to encode a batch.
    #[error("cannot encode a batch of the recording; report this as a bug")]
    Encode(#[from] ArrowError),
}

impl From<Undefined> for WriteError {
    fn from(undefined: Undefined) -> WriteError {
        match undefined {
            Undefined::Id { what, id, defined } => WriteError::Order { what, id, defined },
            Undefined::Cpu(cpu) => WriteError::Cpu { cpu },
        }
    }
}

/// Reason why a file could not be read as a recording. The reader has already returned all batches
/// before the fault.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file could not be opened.
    #[error("cannot open the recording {path}: {error}; check the name and its permissions", path = ShownLine::from(.path.as_path()))]
    Open {
        /// Requested path.
        path: PathBuf,
        /// Error of the kernel.
        error: io::Error,
    },
    /// The file is not a recording.
    #[error("not a vmnoise recording: {what}; name a file written with `-o`")]
    NotARecording {
        /// Apparent kind of the file.
        what: String,
    },
    /// A newer vmnoise wrote the file.
    #[error(
        "made by a newer vmnoise: format version {found}, this one reads up to {known}; update vmnoise"
    )]
    NewerFormat {
        /// Version of the file.
        found: u32,
        /// Newest version of the format that this crate can read.
        known: u32,
    },
    /// The file ends inside a batch. The file was cut while it was copied, the disk was full, or
    /// the writer was killed in the middle of a write.
    #[error("the recording breaks off at byte {at}, inside batch {batch}, counted from 1; what came before was read, copy the file again if the original is longer", batch = .batches_read + 1)]
    Truncated {
        /// Number of complete batches; 0 also if the header is cut.
        batches_read: u64,
        /// Length of the file in bytes.
        at: u64,
    },
    /// No writer can have written these bytes, so the file is damaged.
    #[error("the recording is damaged in {part}: {what}; what came before was read, restore the file from its original", part = part(*.batch))]
    Corrupt {
        /// Number of the batch, counted from 1; 0 is the header.
        batch: u64,
        /// Description of the fault.
        what: String,
    },
    /// The kernel could not read the file.
    #[error("cannot read the recording after {batches_read} batches: {error}; check the disk")]
    Io {
        /// Number of complete batches.
        batches_read: u64,
        /// Error of the kernel.
        error: io::Error,
    },
}

impl ReadError {
    /// Converts a fault of the framing to an error. `batches_read` batches and `at` bytes were read
    /// before the fault.
    pub(crate) fn from_fault(fault: Fault, batches_read: u64, at: u64) -> ReadError {
        let corrupt = |what| ReadError::Corrupt {
            batch: batches_read + 1,
            what,
        };
        match fault {
            Fault::Truncated => ReadError::Truncated { batches_read, at },
            Fault::Io(error) if error.kind() == io::ErrorKind::IsADirectory => {
                let what = "it is a folder".to_owned();
                ReadError::NotARecording { what }
            }
            Fault::Io(error) => ReadError::Io {
                batches_read,
                error,
            },
            Fault::Foreign(_) => corrupt(format!("no message starts before byte {at}")),
            Fault::Corrupt(what) => corrupt(what),
        }
    }
}

fn part(batch: u64) -> String {
    match batch {
        0 => "its header".to_owned(),
        batch => format!("batch {batch}"),
    }
}
