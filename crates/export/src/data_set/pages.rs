//! The pages of a column, looked at before they are decoded: the library takes it for granted that pages which need a
//! dictionary come behind one.

use std::fs::File;
use std::sync::Arc;

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::serialized_reader::SerializedPageReader;

/// Pages of a column of a row group.
pub(super) struct Pages {
    pages: SerializedPageReader<File>,
    has_dictionary: bool,
}

impl Pages {
    /// Those of this chunk of a file, which has so many rows.
    pub(super) fn new(file: &Arc<File>, chunk: &ColumnChunkMetaData, rows: usize) -> Result<Pages> {
        let begin = chunk.dictionary_page_offset();
        let begin = begin.unwrap_or_else(|| chunk.data_page_offset());
        if begin < 0 || chunk.compressed_size() < 0 {
            return Err(ParquetError::General("a column lies nowhere".into()));
        }
        Ok(Pages {
            pages: SerializedPageReader::new(Arc::clone(file), chunk, rows, None)?,
            has_dictionary: false,
        })
    }
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        match &page {
            Some(Page::DictionaryPage { .. }) => self.has_dictionary = true,
            Some(data) => {
                let dictionary = [Encoding::RLE_DICTIONARY, Encoding::PLAIN_DICTIONARY];
                if dictionary.contains(&data.encoding()) && !self.has_dictionary {
                    return Err(ParquetError::General("a dictionary is not there".into()));
                }
            }
            None => {}
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }
}
