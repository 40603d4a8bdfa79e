//! Names of the sources that a stream has defined, by id.

use std::collections::HashMap;
use std::sync::Arc;

use vmnoise_events::{Source, SourceId};

use crate::named::NamedPart;
use crate::part::{Part, by_source};

/// Name of an id that the stream never defined.
const UNDEFINED: &str = "undefined";
/// Name of a culprit if only its share is known.
const UNKNOWN: &str = "unknown";

/// First id for sources on the host of a guest. These ids do not come from the guest's own stream.
const BELOW: u32 = 1 << 31;

#[derive(Debug, Default)]
pub(crate) struct Names {
    own: Vec<Arc<str>>,
    of_host: Vec<Arc<str>>,
    ids_of_host: HashMap<Arc<str>, SourceId>,
}

impl Names {
    /// Adds a definition. Returns `false` and ignores the definition if it breaks the order of ids:
    /// it leaves a hole, or gives another name to an id in use.
    pub(crate) fn define(&mut self, source: &Source) -> bool {
        let index = source.id.0 as usize;
        match self.own.get(index) {
            Some(name) => **name == *source.name,
            None if index == self.own.len() => {
                self.own.push(source.name.as_str().into());
                true
            }
            None => false,
        }
    }

    /// Returns `id` if the stream has defined a source with this id.
    pub(crate) fn defined(&self, id: SourceId) -> Option<SourceId> {
        ((id.0 as usize) < self.own.len()).then_some(id)
    }

    /// Returns the id of a source on the host of this guest. A new name gets the next id.
    pub(crate) fn of_host(&mut self, name: &str) -> SourceId {
        if let Some(id) = self.ids_of_host.get(name) {
            return *id;
        }
        let id = SourceId(BELOW | self.of_host.len() as u32);
        let name: Arc<str> = name.into();
        self.of_host.push(Arc::clone(&name));
        self.ids_of_host.insert(name, id);
        id
    }

    fn get(&self, id: SourceId) -> Option<&Arc<str>> {
        match host_index(id) {
            Some(index) => self.of_host.get(index),
            None => self.own.get(id.0 as usize),
        }
    }

    pub(crate) fn name(&self, id: Option<SourceId>) -> &str {
        id.map_or(UNKNOWN, |id| self.get(id).map_or(UNDEFINED, |name| name))
    }

    /// Returns the name of a source as a shared string.
    pub(crate) fn shared(&self, id: SourceId) -> Arc<str> {
        self.known(id).unwrap_or_else(|| UNDEFINED.into())
    }

    /// Returns the name of a source as a shared string; `None` if the id has no name.
    pub(crate) fn known(&self, id: SourceId) -> Option<Arc<str>> {
        self.get(id).map(Arc::clone)
    }

    /// Returns a part with the name of its source.
    pub(crate) fn part(&self, part: &Part) -> NamedPart {
        let name = |id| self.name(Some(id)).to_string().into();
        NamedPart {
            phase: part.phase,
            share: part.share,
            source: part.source.map(name),
            host_cpu: part.host_cpu,
            ns: part.ns,
            count: part.count,
        }
    }

    /// Returns the parts of a budget with the names of their sources, merged over the host's CPUs.
    pub(crate) fn parts(&self, parts: &[Part]) -> Vec<NamedPart> {
        let parts = by_source(parts);
        parts.iter().map(|part| self.part(part)).collect()
    }
}

/// Returns the dense index of a source on the host; `None` for a source of the stream itself.
pub(crate) fn host_index(id: SourceId) -> Option<usize> {
    (id.0 & BELOW != 0).then_some((id.0 & !BELOW) as usize)
}

/// Returns a dense index for an optional source: 0 for no source, and from 1 on for ids.
pub(crate) fn row(source: Option<SourceId>) -> usize {
    source.map_or(0, |id| id.0 as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(id: u32, name: &str) -> Source {
        Source {
            id: SourceId(id),
            name: name.to_string().into(),
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

    #[test]
    fn the_host_has_a_name_space_of_its_own() {
        let mut names = Names::default();
        let far = SourceId(u32::MAX);
        assert!(names.define(&source(0, "ksoftirqd/0:15")));
        let of_host = names.of_host("ksoftirqd/0:15");
        assert_eq!(of_host, names.of_host("ksoftirqd/0:15"));
        assert_ne!(of_host, names.of_host("rcuc/0:19"));
        assert_eq!(names.name(Some(of_host)), "ksoftirqd/0:15");
        // No id in a stream can be the id of a source on the host.
        assert_eq!((names.defined(of_host), names.defined(far)), (None, None));
        assert_eq!(names.name(Some(far)), UNDEFINED);
    }
}
