//! The sources a stream has defined, by their ids.

use std::sync::Arc;

use vmnoise_events::{Source, SourceId};

use crate::budget::Part;
use crate::summary::NamedPart;

/// What an id is called that the stream never defined.
const UNDEFINED: &str = "undefined";

#[derive(Debug, Default)]
pub(crate) struct Names(Vec<Arc<str>>);

impl Names {
    /// Takes a definition; `false` where it breaks the order of ids (a hole, or
    /// another name for an id in use), and is therefore not taken.
    pub(crate) fn define(&mut self, source: &Source) -> bool {
        let index = source.id.0 as usize;
        match self.0.get(index) {
            Some(name) => **name == *source.name,
            None if index == self.0.len() => {
                self.0.push(source.name.as_str().into());
                true
            }
            None => false,
        }
    }

    /// The id if it is defined: nobody is named without a name.
    pub(crate) fn defined(&self, id: SourceId) -> Option<SourceId> {
        ((id.0 as usize) < self.0.len()).then_some(id)
    }

    pub(crate) fn name(&self, id: Option<SourceId>) -> &str {
        id.and_then(|id| self.0.get(id.0 as usize))
            .map_or(UNDEFINED, |name| name)
    }

    /// The name, to be kept.
    pub(crate) fn shared(&self, id: SourceId) -> Arc<str> {
        let defined = self.0.get(id.0 as usize);
        defined.map_or_else(|| UNDEFINED.into(), Arc::clone)
    }

    /// The parts of a budget with the names of their sources.
    pub(crate) fn parts(&self, parts: &[Part]) -> Vec<NamedPart> {
        let named = parts.iter().map(|part| NamedPart {
            share: part.share,
            source: part.source.map(|id| self.name(Some(id)).to_string()),
            ns: part.ns,
            count: part.count,
        });
        named.collect()
    }
}

/// A dense index for an optional source: 0 for none, ids from 1.
pub(crate) fn row(source: Option<SourceId>) -> usize {
    source.map_or(0, |id| id.0 as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(id: u32, name: &str) -> Source {
        Source {
            id: SourceId(id),
            name: name.to_string(),
        }
    }

    #[test]
    fn holes_and_renames_are_refused() {
        let mut names = Names::default();
        assert!(names.define(&source(0, "a")));
        assert!(names.define(&source(0, "a")));
        assert!(!names.define(&source(0, "b")));
        assert!(!names.define(&source(u32::MAX, "far")));
        assert_eq!(names.defined(SourceId(1)), None);
        assert_eq!(names.name(Some(SourceId(0))), "a");
        assert_eq!(names.name(Some(SourceId(7))), UNDEFINED);
    }
}
