//! What parts and tracks are called. Parts are interned once for each share and source, so that
//! a part of a gap costs no text.

use vmnoise_events::{RunFacts, Share, ShareMap, SourceId, Vcpu};

use super::packets::{NameOf, Packets};
use crate::error::ExportError;

/// The numbers of names that are made of a share and a source, as far as they were needed.
#[derive(Debug)]
pub(super) struct Labels {
    of: NameOf,
    /// By the source's id plus one (0 is nobody), then by share; 0 is not known yet.
    numbers: Vec<ShareMap<u64>>,
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
            self.numbers.resize(place + 1, ShareMap::default());
        }
        let number = &mut self.numbers[place][share];
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

/// What of its exits a run was asked for, as its tracks say it.
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

/// How a vCPU's tracks are called.
pub(super) fn vcpu_name(vcpu: &Vcpu) -> String {
    let number = vcpu
        .number
        .map_or_else(|| "?".to_owned(), |it| it.to_string());
    format!("vCPU {number} of {} (thread {})", vcpu.vm_name, vcpu.tid)
}
