//! Checks the pages of a column before the Parquet library decodes them. The library panics on some
//! damaged pages, and allocates as much memory as a page's header claims.

use std::fs::File;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, Type};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::serialized_reader::SerializedPageReader;

/// Reader that lets only safe pages pass. The library decodes safe pages without a panic, and with
/// memory that is bounded by the size of the page.
pub(super) struct CheckedPages {
    pages: SerializedPageReader<File>,
    physical_type: Type,
    has_dictionary: bool,
}

fn fault<V>(what: impl Into<String>) -> Result<V> {
    Err(ParquetError::General(what.into()))
}

impl CheckedPages {
    /// Opens the pages of this column chunk.
    pub(super) fn new(file: &Arc<File>, chunk: &ColumnChunkMetaData) -> Result<CheckedPages> {
        let begin = chunk.dictionary_page_offset();
        let begin = begin.unwrap_or_else(|| chunk.data_page_offset());
        // The library panics unless these conditions hold.
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
            // The library uses the number of rows (here 0) only for files with a page index.
            pages: SerializedPageReader::new(Arc::clone(file), chunk, 0, None)?,
            physical_type: chunk.column_type(),
            has_dictionary: false,
        })
    }

    fn check(&mut self, page: &Page) -> Result<()> {
        match page {
            Page::DictionaryPage {
                buf, num_values, ..
            } => {
                let least_size = match self.physical_type {
                    Type::INT64 => size_of::<i64>(),
                    // Each text begins with its length, a u32.
                    Type::BYTE_ARRAY => size_of::<u32>(),
                    other => return fault(format!("a column of {other} has a dictionary")),
                };
                if buf.len() / least_size < *num_values as usize {
                    return fault("a dictionary ends before its values do");
                }
                self.has_dictionary = true;
                return Ok(());
            }
            Page::DataPage {
                def_level_encoding: Encoding::RLE,
                ..
            } => {}
            Page::DataPage {
                def_level_encoding, ..
            } => return fault(format!("levels as {def_level_encoding} are not read")),
            Page::DataPageV2 {
                buf,
                def_levels_byte_len,
                rep_levels_byte_len,
                ..
            } => {
                let levels = u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len);
                if levels > buf.len() as u64 {
                    return fault("a page ends before its levels do");
                }
            }
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
            // For other encodings, the library panics if a page's claims are wrong.
            (other, _) => fault(format!(
                "the encoding {other} is not read: write plain values or dictionaries"
            )),
        }
    }
}

/// Appends an impossible length to the texts of a page. The library reads the length of the next
/// text even after the last text.
fn bounded(mut page: Page) -> Page {
    let is_plain = page.is_dictionary_page() || page.encoding() == Encoding::PLAIN;
    let (Page::DataPage { buf, .. }
    | Page::DataPageV2 { buf, .. }
    | Page::DictionaryPage { buf, .. }) = &mut page;
    if is_plain {
        *buf = [&buf[..], &u32::MAX.to_le_bytes()].concat().into();
    }
    page
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        while let Some(page) = self.pages.get_next_page()? {
            self.check(&page)?;
            // The library treats a data page without rows as the end of the column.
            if page.is_data_page() && page.num_values() == 0 {
                continue;
            }
            return Ok(Some(match self.physical_type {
                Type::BYTE_ARRAY => bounded(page),
                _ => page,
            }));
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
