//! Errors of an export. Each message is one line that says what to do.

use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;
use vmnoise_events::ShownLine;

/// Reason why an export could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A file or folder cannot be written.
    #[error("cannot write {}: {error}; name a place where you may write and that has room", ShownLine::from(path.as_path()))]
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the kernel.
        error: io::Error,
    },
    /// The Parquet library reported an error.
    #[error("cannot write {}: {error}", ShownLine::from(path.as_path()))]
    Parquet {
        /// Path of the file.
        path: PathBuf,
        /// Error of the library.
        error: ParquetError,
    },
}

/// Returns a closure for `map_err` that adds the path to an error of the kernel.
pub(crate) fn io_error(path: &Path) -> impl FnOnce(io::Error) -> ExportError {
    let path = path.to_owned();
    move |error| ExportError::Io { path, error }
}
