//! The metadata at the end of a Parquet file. The library's own way there reads the indexes of pages as well, which nothing
//! here needs.

use std::fs::File;
use std::os::unix::fs::FileExt;

use parquet::errors::{ParquetError, Result};
use parquet::file::FOOTER_SIZE;
use parquet::file::metadata::{FooterTail, ParquetMetaData, ParquetMetaDataReader};

/// Reads it.
pub(super) fn metadata(file: &File) -> Result<ParquetMetaData> {
    let too_short = || ParquetError::General("it is cut off".into());
    let length = file.metadata()?.len();
    let tail_at = length.checked_sub(FOOTER_SIZE as u64);
    let tail_at = tail_at.ok_or_else(too_short)?;
    let mut tail = [0; FOOTER_SIZE];
    file.read_exact_at(&mut tail, tail_at)?;
    let metadata_length = FooterTail::try_new(&tail)?.metadata_length();
    // It is in the file, so no more than that is asked for.
    let metadata_at = tail_at.checked_sub(metadata_length as u64);
    let metadata_at = metadata_at.ok_or_else(too_short)?;
    let mut metadata = vec![0; metadata_length];
    file.read_exact_at(&mut metadata, metadata_at)?;
    ParquetMetaDataReader::decode_metadata(&metadata)
}
