//! Property of the sources that any decoder of records names.

use vmnoise_events::{Source, SourceId};

/// Number of sources so far. Sources are numbered in order, and defined before their use.
#[derive(Debug, Default)]
pub(super) struct Sources(u32);

impl Sources {
    pub(super) fn define(&mut self, source: &Source) {
        assert_eq!(source.id.0, self.0);
        self.0 += 1;
    }

    pub(super) fn know(&self, id: SourceId) -> bool {
        id.0 < self.0
    }
}
