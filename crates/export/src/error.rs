//! What can go wrong with an export, each in one line with its remedy.

use std::io;
use std::path::PathBuf;

use parquet::errors::ParquetError;

/// Why something could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A file or folder refused what was to be done to it.
    #[error("cannot write {}: {error}; name a place where you may write and that has room", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
    /// The Parquet library refused.
    #[error("cannot write {}: {error}", path.display())]
    Parquet {
        /// Into which file.
        path: PathBuf,
        /// What it said.
        error: ParquetError,
    },
}
