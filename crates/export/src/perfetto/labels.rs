//! What parts are called: interned once for each share and source, so that a part of a gap
//! costs no text.

use vmnoise_events::{Share, SourceId};

use super::packets::{NameOf, Packets};
use crate::error::ExportError;

/// The numbers of names that are made of a share and a source, as far as they were needed.
#[derive(Debug)]
pub(super) struct Labels {
    of: NameOf,
    /// By the source's id plus one (0 is nobody), then by share; 0 is not known yet.
    numbers: Vec<[u64; Share::ALL.len()]>,
}

impl Labels {
    pub(super) fn new(of: NameOf) -> Labels {
        Labels {
            of,
            numbers: Vec::new(),
        }
    }

    /// The number of this part's name, which is `text`. The stream itself defined the sources
    /// below `sources`: their ids are dense.
    pub(super) fn number(
        &mut self,
        packets: &mut Packets,
        (share, source): (Share, Option<SourceId>),
        sources: usize,
        text: impl FnOnce() -> String,
    ) -> Result<u64, ExportError> {
        let place = source.map_or(0, |id| id.0 as usize + 1);
        if place > sources {
            return packets.name(self.of, &text());
        }
        if place >= self.numbers.len() {
            self.numbers.resize(place + 1, [0; Share::ALL.len()]);
        }
        let number = &mut self.numbers[place][share as usize];
        if *number == 0 {
            *number = packets.name(self.of, &text())?;
        }
        Ok(*number)
    }
}

/// A part's name.
pub(super) fn label(share: Share, source: Option<&str>) -> String {
    match source {
        Some(source) => format!("{share} {source}"),
        None => share.name().to_owned(),
    }
}
