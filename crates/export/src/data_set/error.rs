//! Errors while a data set is read. Each message is one line that says what to do.

use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;
use vmnoise_events::ShownLine;

/// Reason why a data set could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DataSetError {
    /// A file or folder cannot be read.
    #[error("cannot read {}: {error}; name a folder that `vmnoise export --parquet` wrote", ShownLine::from(path.as_path()))]
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the kernel.
        error: io::Error,
    },
    /// A folder contains no runs.
    #[error("{} holds no run of a data set: {holds}; name a folder that `vmnoise export --parquet` wrote", ShownLine::from(path.as_path()))]
    NoRuns {
        /// Path of the folder.
        path: PathBuf,
        /// Description of the data that the folder contains instead.
        holds: &'static str,
    },
    /// A table of a run is missing.
    #[error("{} is not there: export that recording again, with this vmnoise", ShownLine::from(path.as_path()))]
    NoTable {
        /// Path of the file.
        path: PathBuf,
    },
    /// A file is not Parquet, or is damaged.
    #[error("cannot read {}: {}; export that recording again", ShownLine::from(path.as_path()), ShownLine::from(error.to_string()))]
    Parquet {
        /// Path of the file.
        path: PathBuf,
        /// Error of the library.
        error: ParquetError,
    },
    /// The table was not written by vmnoise, or was changed.
    #[error("{} is no such table as vmnoise writes: {what}; export that recording again, with this vmnoise", ShownLine::from(path.as_path()))]
    Table {
        /// Path of the file.
        path: PathBuf,
        /// Description of the difference.
        what: String,
    },
}

pub(super) fn io_error(path: &Path) -> impl FnOnce(io::Error) -> DataSetError {
    let path = path.to_owned();
    move |error| match error.kind() {
        io::ErrorKind::NotFound => DataSetError::NoTable { path },
        _ => DataSetError::Io { path, error },
    }
}

pub(super) fn parquet_error(path: &Path) -> impl FnOnce(ParquetError) -> DataSetError {
    let path = path.to_owned();
    move |error| DataSetError::Parquet { path, error }
}
