//! What can go wrong with an export, each in one line with its remedy.

use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;
use vmnoise_events::Line;

/// Why something could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A file or folder refused what was to be done to it.
    #[error("cannot write {}: {error}; name a place where you may write and that has room", Line::from(path.as_path()))]
    Io {
        /// Which.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
    /// The Parquet library refused.
    #[error("cannot write {}: {error}", Line::from(path.as_path()))]
    Parquet {
        /// Into which file.
        path: PathBuf,
        /// What it said.
        error: ParquetError,
    },
}

/// For `map_err`.
pub(crate) fn io_error(path: &Path) -> impl FnOnce(io::Error) -> ExportError {
    let path = path.to_owned();
    move |error| ExportError::Io { path, error }
}
