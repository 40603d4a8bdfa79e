//! Writes one table to one file.

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;

use super::cells::{Cell, Cells};
use super::csv::Reader;
use super::{Encoding, Schema, csv, parquet as parquet_rows};
use crate::error::{ExportError, io_error};
use crate::whole_file::{Readers, WholeFile};

/// Number of rows in a Parquet row group, and between two writes of CSV.
const ROWS_AT_ONCE: usize = 1 << 17;

/// A table that is being written to a file.
pub(crate) struct TableFile {
    schema: Schema,
    cells: Cells,
    sink: Sink,
    path: PathBuf,
}

enum Sink {
    Csv(BufWriter<WholeFile>, Reader),
    Parquet(Box<SerializedFileWriter<WholeFile>>),
}

impl TableFile {
    pub(crate) fn create(
        folder: &Path,
        schema: Schema,
        encoding: Encoding,
    ) -> Result<TableFile, ExportError> {
        let name = format!("{}.{}", schema.name, encoding.suffix());
        let path = folder.join(name);
        let file = WholeFile::create_here(&path, Readers::Anyone).map_err(io_error(&path))?;
        let sink = match encoding {
            Encoding::Csv | Encoding::SpreadsheetCsv => {
                let mut out = BufWriter::new(file);
                csv::write_header(&mut out, &schema).map_err(io_error(&path))?;
                let reader = match encoding {
                    Encoding::SpreadsheetCsv => Reader::Spreadsheet,
                    _ => Reader::Program,
                };
                Sink::Csv(out, reader)
            }
            Encoding::Parquet => {
                let writer = parquet_rows::create(file, &schema);
                Sink::Parquet(Box::new(writer.map_err(parquet_error(&path))?))
            }
        };
        Ok(TableFile {
            cells: Cells::new(&schema),
            schema,
            sink,
            path,
        })
    }

    /// Adds a row. The cells must be in the order of the columns.
    pub(crate) fn push<'a>(
        &mut self,
        row: impl IntoIterator<Item = Cell<'a>>,
    ) -> Result<(), ExportError> {
        self.cells.push(row);
        match self.cells.rows() {
            ROWS_AT_ONCE.. => self.write_rows(),
            _ => Ok(()),
        }
    }

    /// Completes the file, and renames it to its final name.
    pub(crate) fn finish(mut self) -> Result<(), ExportError> {
        self.write_rows()?;
        let path = &self.path;
        let file = match self.sink {
            Sink::Csv(out, _) => {
                let flushed = out.into_inner();
                flushed.map_err(|error| io_error(path)(error.into_error()))?
            }
            Sink::Parquet(writer) => writer.into_inner().map_err(parquet_error(path))?,
        };
        file.finish().map_err(io_error(path))
    }

    fn write_rows(&mut self) -> Result<(), ExportError> {
        if self.cells.rows() == 0 {
            return Ok(());
        }
        let path = &self.path;
        match &mut self.sink {
            Sink::Csv(out, reader) => {
                csv::write_rows(out, &self.schema, &self.cells, *reader).map_err(io_error(path))?;
            }
            Sink::Parquet(writer) => {
                parquet_rows::write_rows(writer, &self.cells).map_err(parquet_error(path))?;
            }
        }
        self.cells.clear();
        Ok(())
    }
}

impl std::fmt::Debug for TableFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

fn parquet_error(path: &Path) -> impl FnOnce(ParquetError) -> ExportError {
    let path = path.to_owned();
    move |error| ExportError::Parquet { path, error }
}
