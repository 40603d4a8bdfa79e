//! Numbers of lost records by kind: losses that the stream reports, and damage found in the stream.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use vmnoise_events::{Loss, LossKind};

const KINDS: usize = LossKind::ALL.len();

/// Numbers of lost records by kind. In JSON, this is an object with the names of all kinds. A
/// number includes the losses that the stream reported and the damage found in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Losses([u64; KINDS]);

impl Losses {
    /// Returns the number of lost records of this kind.
    pub fn get(&self, kind: LossKind) -> u64 {
        self.0[kind as usize]
    }

    /// Returns every kind with its count.
    pub fn iter(&self) -> impl Iterator<Item = (LossKind, u64)> {
        LossKind::ALL.into_iter().zip(self.0)
    }

    /// Returns the number of lost records that may have been gaps. All other lost records only cost
    /// names.
    pub fn of_gaps(&self) -> u64 {
        let kinds = [
            LossKind::MailboxFull,
            LossKind::Undecodable,
            LossKind::Unrecorded,
        ];
        kinds
            .into_iter()
            .fold(0, |sum, kind| self.get(kind).saturating_add(sum))
    }

    /// Returns the number of lost records that may have been vCPUs. The kernel's own sums replace
    /// all other lost records.
    pub fn of_vcpus(&self) -> u64 {
        let kinds = [
            LossKind::VcpusFull,
            LossKind::Undecodable,
            LossKind::Unrecorded,
        ];
        kinds
            .into_iter()
            .fold(0, |sum, kind| self.get(kind).saturating_add(sum))
    }

    /// Returns the number of lost records of all kinds.
    pub fn total(&self) -> u64 {
        self.0
            .iter()
            .fold(0, |sum, count| count.saturating_add(sum))
    }
}

impl Serialize for Losses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (kind, count) in self.iter() {
            map.serialize_entry(kind.name(), &count)?;
        }
        map.end()
    }
}

/// Numbers of losses in a run so far.
#[derive(Debug, Default)]
pub(crate) struct LossCounts {
    reported: [u64; KINDS],
    found: [u64; KINDS],
}

impl LossCounts {
    /// Sets the number of losses of one kind that the stream reports since its start.
    pub(crate) fn report(&mut self, loss: &Loss) {
        let count = &mut self.reported[loss.kind as usize];
        *count = loss.count.max(*count);
    }

    /// Adds one record that is damaged in the stream itself.
    pub(crate) fn find(&mut self, kind: LossKind) {
        self.found[kind as usize] += 1;
    }

    /// Returns all losses so far. `more` is the number of undecodable records that were found
    /// elsewhere.
    pub(crate) fn with_undecodable(&self, more: u64) -> Losses {
        let mut losses = self.reported;
        for (reported, found) in losses.iter_mut().zip(self.found) {
            *reported = reported.saturating_add(found);
        }
        let undecodable = &mut losses[LossKind::Undecodable as usize];
        *undecodable = undecodable.saturating_add(more);
        Losses(losses)
    }
}
