//! What can be wrong with a data set, each in one line with its remedy.

use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;
use vmnoise_events::Line;

/// Why a data set could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DataSetError {
    /// The kernel refused.
    #[error("cannot read {}: {error}; name a folder that `vmnoise export --parquet` wrote", Line::from(path.as_path()))]
    Io {
        /// A file or folder.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
    /// No runs are in a folder.
    #[error("{} holds no run of a data set: {holds}; name a folder that `vmnoise export --parquet` wrote", Line::from(path.as_path()))]
    NoRuns {
        /// The folder.
        path: PathBuf,
        /// What it has in their place.
        holds: &'static str,
    },
    /// A table of a run is not there.
    #[error("{} is not there: export that recording again, with this vmnoise", Line::from(path.as_path()))]
    NoTable {
        /// Its file.
        path: PathBuf,
    },
    /// A file is no Parquet, or is damaged.
    #[error("cannot read {}: {}; export that recording again", Line::from(path.as_path()), Line::from(error.to_string()))]
    Parquet {
        /// Its file.
        path: PathBuf,
        /// What the library said.
        error: ParquetError,
    },
    /// A table is another one, or has been changed.
    #[error("{} is no such table as vmnoise writes: {what}; export that recording again, with this vmnoise", Line::from(path.as_path()))]
    Table {
        /// Its file.
        path: PathBuf,
        /// What is wrong.
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
