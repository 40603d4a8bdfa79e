//! Row groups as the library's reader of arrays takes them, with each page checked first: its decoders panic on some
//! damaged pages, and allocate what the header of a page claims.

use std::fs::File;
use std::iter;
use std::sync::Arc;

use parquet::arrow::arrow_reader::RowGroups;
use parquet::basic::{Compression, Encoding, Type};
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;

/// One row group of a file.
pub(super) struct Group<'a> {
    pub(super) file: &'a Arc<File>,
    pub(super) metadata: &'a ParquetMetaData,
    pub(super) index: usize,
}

impl Group<'_> {
    fn row_group(&self) -> &RowGroupMetaData {
        self.metadata.row_group(self.index)
    }
}

impl RowGroups for Group<'_> {
    fn num_rows(&self) -> usize {
        usize::try_from(self.row_group().num_rows()).unwrap_or(0)
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>> {
        let chunk = self.row_group().column(column);
        let pages = CheckedPages::new(self.file, chunk, self.num_rows())?;
        Ok(Box::new(Chunk(Some(pages))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(iter::once(self.row_group()))
    }

    fn metadata(&self) -> &ParquetMetaData {
        self.metadata
    }
}

/// The column of a row group: the only one of the iterator.
struct Chunk(Option<CheckedPages>);

impl Iterator for Chunk {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(Ok(Box::new(self.0.take()?)))
    }
}

impl PageIterator for Chunk {}

/// Pages of a column that the library's decoders take without a panic, in memory that the size of the page bounds.
struct CheckedPages {
    pages: SerializedPageReader<File>,
    physical_type: Type,
    has_levels: bool,
    has_dictionary: bool,
}

fn fault<V>(what: impl Into<String>) -> Result<V> {
    Err(ParquetError::General(what.into()))
}

impl CheckedPages {
    fn new(file: &Arc<File>, chunk: &ColumnChunkMetaData, rows: usize) -> Result<CheckedPages> {
        let begin = chunk.dictionary_page_offset();
        let begin = begin.unwrap_or_else(|| chunk.data_page_offset());
        // The library asserts that.
        if begin < 0 || chunk.compressed_size() < 0 {
            return fault("a column has a negative offset or size");
        }
        let (snappy, none) = (Compression::SNAPPY, Compression::UNCOMPRESSED);
        let compression = chunk.compression();
        if compression != snappy && compression != none {
            return fault(format!(
                "{compression} is not read: write it with Snappy, or without compression"
            ));
        }
        Ok(CheckedPages {
            pages: SerializedPageReader::new(Arc::clone(file), chunk, rows, None)?,
            physical_type: chunk.column_type(),
            has_levels: chunk.column_descr().max_def_level() > 0,
            has_dictionary: false,
        })
    }

    fn check(&mut self, page: &Page) -> Result<()> {
        if page.is_dictionary_page() {
            self.has_dictionary = true;
            return self.check_dictionary(page);
        }
        if !self.levels(page).is_some_and(runs_fit) {
            return fault("a page does not say which of its values are known");
        }
        let by_dictionary = matches!(
            page.encoding(),
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY
        );
        match (page.encoding(), self.physical_type) {
            _ if by_dictionary && self.has_dictionary => Ok(()),
            _ if by_dictionary => fault("a column lacks its dictionary"),
            (Encoding::PLAIN, _)
            | (Encoding::RLE, Type::BOOLEAN)
            | (Encoding::DELTA_BINARY_PACKED, Type::INT64) => Ok(()),
            // The library's decoders of the others assert what a page claims.
            (other, _) => fault(format!(
                "the encoding {other} is not read: write plain values or dictionaries"
            )),
        }
    }

    fn check_dictionary(&self, page: &Page) -> Result<()> {
        let least_size = match self.physical_type {
            Type::INT64 => size_of::<i64>(),
            // Each begins with its length.
            Type::BYTE_ARRAY => size_of::<u32>(),
            other => return fault(format!("a column of {other} has a dictionary")),
        };
        if page.buffer().len() / least_size < page.num_values() as usize {
            return fault("a dictionary ends before its values do");
        }
        Ok(())
    }

    /// Which values of a data page are known, as it has that encoded; `None` where it is cut off.
    fn levels<'a>(&self, page: &'a Page) -> Option<&'a [u8]> {
        match page {
            Page::DataPageV2 {
                buf,
                def_levels_byte_len,
                rep_levels_byte_len,
                ..
            } => {
                let levels = buf.get(*rep_levels_byte_len as usize..)?;
                levels.get(..*def_levels_byte_len as usize)
            }
            _ if !self.has_levels => Some(&[]),
            Page::DataPage {
                buf,
                def_level_encoding: Encoding::RLE,
                ..
            } => {
                let (length, levels) = buf.split_first_chunk::<4>()?;
                levels.get(..u32::from_le_bytes(*length) as usize)
            }
            _ => None,
        }
    }
}

/// Whether runs of levels of one bit end where their bytes do (`Encodings.md` of parquet-format, "Run Length Encoding /
/// Bit-Packing Hybrid"). The library relies on it.
fn runs_fit(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let length = bytes.iter().position(|byte| *byte < 0x80);
        // Headers are of 32 bits, in groups of 7.
        let Some(length) = length.filter(|length| *length < 5) else {
            return false;
        };
        let (header, rest) = bytes.split_at(length + 1);
        let header = header
            .iter()
            .rfold(0, |header, byte| header << 7 | u64::from(byte & 0x7f));
        let run_bytes = match header & 1 {
            1 => header >> 1,
            _ => 1,
        };
        match rest.get(run_bytes as usize..) {
            Some(after) => bytes = after,
            None => return false,
        }
    }
    true
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        while let Some(page) = self.pages.get_next_page()? {
            self.check(&page)?;
            // The library takes a data page without rows for the end of the column.
            if page.is_dictionary_page() || page.num_values() > 0 {
                return Ok(Some(page));
            }
        }
        Ok(None)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }
}

impl Iterator for CheckedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}
