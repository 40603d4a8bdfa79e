//! One table on its way to one file.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;

use super::cells::{Cell, Cells};
use super::csv::Reader;
use super::{Encoding, Schema, csv, parquet as parquet_rows};
use crate::error::ExportError;

/// Rows of a row group, and between two writes of CSV.
const ROWS_AT_ONCE: usize = 1 << 17;

/// A file that appears under its name when it is whole. Until then its name begins with a
/// dot, which readers of data sets pass over.
pub(crate) struct TableFile {
    schema: Schema,
    cells: Cells,
    sink: Sink,
    path: PathBuf,
    unfinished: PathBuf,
}

enum Sink {
    Csv(BufWriter<File>, Reader),
    Parquet(Box<SerializedFileWriter<File>>),
}

impl TableFile {
    pub(crate) fn create(
        folder: &Path,
        schema: Schema,
        encoding: Encoding,
    ) -> Result<TableFile, ExportError> {
        let name = format!("{}.{}", schema.name, encoding.suffix());
        let unfinished = folder.join(format!(".{name}.part"));
        let file = File::create(&unfinished).map_err(io_error(&unfinished))?;
        let sink = match encoding {
            Encoding::Csv | Encoding::SpreadsheetCsv => {
                let mut out = BufWriter::new(file);
                csv::write_header(&mut out, &schema).map_err(io_error(&unfinished))?;
                let reader = match encoding {
                    Encoding::SpreadsheetCsv => Reader::Spreadsheet,
                    _ => Reader::Program,
                };
                Sink::Csv(out, reader)
            }
            Encoding::Parquet => {
                let writer = parquet_rows::create(file, &schema);
                Sink::Parquet(Box::new(writer.map_err(parquet_error(&unfinished))?))
            }
        };
        Ok(TableFile {
            cells: Cells::new(&schema),
            schema,
            sink,
            path: folder.join(name),
            unfinished,
        })
    }

    /// Adds a row.
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

    /// Ends the file and gives it its name.
    pub(crate) fn finish(mut self) -> Result<(), ExportError> {
        self.write_rows()?;
        let unfinished = &self.unfinished;
        match self.sink {
            Sink::Csv(mut out, _) => out.flush().map_err(io_error(unfinished))?,
            Sink::Parquet(writer) => {
                writer.close().map_err(parquet_error(unfinished))?;
            }
        }
        fs::rename(unfinished, &self.path).map_err(io_error(&self.path))
    }

    fn write_rows(&mut self) -> Result<(), ExportError> {
        if self.cells.rows() == 0 {
            return Ok(());
        }
        let path = &self.unfinished;
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

pub(crate) fn io_error(path: &Path) -> impl FnOnce(io::Error) -> ExportError {
    let path = path.to_owned();
    move |error| ExportError::Io { path, error }
}

fn parquet_error(path: &Path) -> impl FnOnce(ParquetError) -> ExportError {
    let path = path.to_owned();
    move |error| ExportError::Parquet { path, error }
}
