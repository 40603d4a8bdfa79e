//! The values of a column of a row group, some at a time.
//!
//! The library's reader of columns has a decoder for each encoding that there is, which is a quarter of a megabyte of code. What
//! vmnoise writes is plain or by a dictionary, so these two are decoded here, from the pages that the library reads.

use std::fs::File;
use std::sync::Arc;

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::serialized_reader::SerializedPageReader;
use vmnoise_events::Name;

use super::hybrid::Hybrid;

/// What a column holds.
pub(super) trait Value: Clone {
    /// Reads plain values one after the other.
    type Plain: Default;
    /// Begins to read a page of them.
    fn plain(page: &[u8]) -> Self::Plain;
    /// The next one; `None` where the page ends, or holds something else.
    fn next(plain: &mut Self::Plain) -> Option<Self>;
}

/// A page, and where reading is.
#[derive(Debug, Default)]
pub(super) struct Bytes {
    bytes: Vec<u8>,
    at: usize,
}

impl Bytes {
    fn of(page: &[u8]) -> Bytes {
        let bytes = page.to_vec();
        Bytes { bytes, at: 0 }
    }

    fn take(&mut self, length: usize) -> Option<&[u8]> {
        let from = self.at;
        self.at = from.checked_add(length)?;
        self.bytes.get(from..self.at)
    }
}

impl Value for i64 {
    type Plain = Bytes;

    fn plain(page: &[u8]) -> Bytes {
        Bytes::of(page)
    }

    fn next(plain: &mut Bytes) -> Option<i64> {
        let bytes = plain.take(8)?;
        Some(i64::from_le_bytes(bytes.try_into().ok()?))
    }
}

impl Value for Arc<str> {
    type Plain = Bytes;

    fn plain(page: &[u8]) -> Bytes {
        Bytes::of(page)
    }

    fn next(plain: &mut Bytes) -> Option<Arc<str>> {
        let length = u32::from_le_bytes(plain.take(4)?.try_into().ok()?);
        let text = plain.take(length as usize)?;
        // Whoever wrote the table, what it names reaches terminals and pages.
        Some(Name::new(str::from_utf8(text).ok()?).as_str().into())
    }
}

impl Value for bool {
    type Plain = Hybrid;

    fn plain(page: &[u8]) -> Hybrid {
        Hybrid::of_bits(page.to_vec())
    }

    fn next(plain: &mut Hybrid) -> Option<bool> {
        Some(plain.next()? == 1)
    }
}

/// Values that are known or not, one for each row.
pub(super) struct Values<V: Value> {
    pages: SerializedPageReader<File>,
    is_always_known: bool,
    dictionary: Option<Vec<V>>,
    /// Rows of the page that are not read yet.
    left: usize,
    /// Whether each one's value is known: 1 or 0.
    levels: Hybrid,
    of_page: OfPage<V>,
}

/// The values of a page that are known.
enum OfPage<V: Value> {
    Plain(V::Plain),
    /// Places in the dictionary.
    Places(Hybrid),
}

fn fault<V>(what: &str) -> Result<V> {
    Err(ParquetError::General(what.to_owned()))
}

impl<V: Value> Values<V> {
    /// Those of this chunk of a file, which has so many rows.
    pub(super) fn new(
        file: &Arc<File>,
        chunk: &ColumnChunkMetaData,
        rows: usize,
    ) -> Result<Values<V>> {
        let begin = chunk.dictionary_page_offset();
        let begin = begin.unwrap_or_else(|| chunk.data_page_offset());
        // The library takes that for granted.
        if begin < 0 || chunk.compressed_size() < 0 {
            return fault("a column lies nowhere");
        }
        Ok(Values {
            pages: SerializedPageReader::new(Arc::clone(file), chunk, rows, None)?,
            is_always_known: chunk.column_descr().max_def_level() == 0,
            dictionary: None,
            left: 0,
            levels: Hybrid::default(),
            of_page: OfPage::Plain(V::Plain::default()),
        })
    }

    /// The next values, so many at most; none behind the last.
    pub(super) fn read(&mut self, most: usize) -> Result<Vec<Option<V>>> {
        let mut values = Vec::new();
        while values.len() < most && (self.left > 0 || self.next_page()?) {
            self.left -= 1;
            let is_known = self.is_always_known
                || match self.levels.next() {
                    Some(level) => level == 1,
                    None => return fault("a page ends before its rows do"),
                };
            values.push(match is_known {
                true => Some(self.next_known()?),
                false => None,
            });
        }
        Ok(values)
    }

    fn next_known(&mut self) -> Result<V> {
        let value = match &mut self.of_page {
            OfPage::Plain(plain) => V::next(plain),
            OfPage::Places(places) => places.next().and_then(|place| {
                let dictionary = self.dictionary.as_ref()?;
                dictionary.get(place as usize).cloned()
            }),
        };
        value.map_or_else(|| fault("a page ends before its values do"), Ok)
    }

    /// Goes to the next page of values, and tells whether there is one.
    fn next_page(&mut self) -> Result<bool> {
        while let Some(page) = self.pages.get_next_page()? {
            let count = page.num_values() as usize;
            match page {
                Page::DictionaryPage { buf, .. } => {
                    let mut plain = V::plain(&buf);
                    let values = (0..count).map(|_| V::next(&mut plain));
                    let Some(values) = values.collect() else {
                        return fault("a dictionary ends before its values do");
                    };
                    self.dictionary = Some(values);
                }
                Page::DataPage {
                    buf,
                    encoding,
                    def_level_encoding,
                    ..
                } => {
                    self.open(&buf, encoding, def_level_encoding)?;
                    self.left = count;
                    if count > 0 {
                        return Ok(true);
                    }
                }
                Page::DataPageV2 { .. } => return fault("pages of version 2 are not read"),
            }
        }
        Ok(false)
    }

    fn open(&mut self, page: &[u8], encoding: Encoding, of_levels: Encoding) -> Result<()> {
        let mut values = page;
        if !self.is_always_known {
            let cut = page.split_first_chunk::<4>().and_then(|(length, rest)| {
                rest.split_at_checked(u32::from_le_bytes(*length) as usize)
            });
            let levels = cut.and_then(|(levels, after)| {
                values = after;
                Hybrid::new(levels.to_vec(), 1).filter(|_| of_levels == Encoding::RLE)
            });
            match levels {
                Some(levels) => self.levels = levels,
                None => return fault("it is not known which of its values are known"),
            }
        }
        self.of_page = match (encoding, values.split_first()) {
            (Encoding::PLAIN, _) => OfPage::Plain(V::plain(values)),
            (Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY, Some((width, places))) => {
                match Hybrid::new(places.to_vec(), *width) {
                    Some(places) => OfPage::Places(places),
                    None => return fault("its dictionary has no such places"),
                }
            }
            (other, _) => return fault(&format!("the encoding {other} is not read")),
        };
        Ok(())
    }
}
