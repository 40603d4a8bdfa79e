//! Names of parts and tracks. Each combination of share and source is interned once, so a gap's
//! part needs only a number.

use vmnoise_events::{RunFacts, Share, ShareMap, SourceId, Vcpu};

use super::packets::{NameOf, Packets};
use crate::error::ExportError;

/// Interned ids of names that consist of a share and a source.
#[derive(Debug)]
pub(super) struct Labels {
    of: NameOf,
    /// Interned ids by source, then by share. The index is the source's id plus one, or 0 for an
    /// unknown source. The value 0 means not yet interned.
    numbers: Vec<ShareMap<u64>>,
}

impl Labels {
    pub(super) fn new(of: NameOf) -> Labels {
        Labels {
            of,
            numbers: Vec::new(),
        }
    }

    /// Returns the interned id of a part's name. `text` returns the name. The stream has defined
    /// the sources with ids below `sources`; other ids are not cached.
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
            self.numbers.resize(place + 1, ShareMap::default());
        }
        let number = &mut self.numbers[place][share];
        if *number == 0 {
            *number = packets.name(self.of, &text())?;
        }
        Ok(*number)
    }
}

/// Returns the name of a part: its share, and its source if known.
pub(super) fn label(share: Share, source: Option<&str>) -> String {
    match source {
        Some(source) => format!("{share} {source}"),
        None => share.name().to_owned(),
    }
}

/// Describes the requested exits of a run, for the names of its tracks. Empty if all exits were
/// requested.
pub(super) fn asked(facts: &RunFacts) -> String {
    let mut asked = String::new();
    if let Some(filter) = &facts.options.exits {
        if !filter.reasons.is_empty() {
            asked += &format!(", only {}", filter.reasons.join(" and "));
        }
        if facts.options.threshold_ns > 0 {
            asked += &format!(", from {} ns of noise", facts.options.threshold_ns);
        }
    }
    asked
}

/// Returns the name of a vCPU's tracks.
pub(super) fn vcpu_name(vcpu: &Vcpu) -> String {
    let number = vcpu
        .number
        .map_or_else(|| "?".to_owned(), |it| it.to_string());
    format!("vCPU {number} of {} (thread {})", vcpu.vm_name, vcpu.tid)
}
