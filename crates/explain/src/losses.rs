//! Lost records by kind: as the stream reports them, and as found damaged.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use vmnoise_events::{Loss, LossKind};

const KINDS: usize = LossKind::ALL.len();

/// Numbers of lost events by kind; in JSON an object with the names of all kinds. A count includes
/// the losses that the stream reported and the damage found in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Losses([u64; KINDS]);

impl Losses {
    /// Returns the number of this kind.
    pub fn get(&self, kind: LossKind) -> u64 {
        self.0[kind as usize]
    }

    /// Returns every kind with its count.
    pub fn iter(&self) -> impl Iterator<Item = (LossKind, u64)> {
        LossKind::ALL.into_iter().zip(self.0)
    }

    /// Returns the number of lost records that may have been gaps, not only names.
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

    /// Returns the number of lost records that may have been vCPUs; the kernel's own sums replace
    /// all others.
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

    /// Returns the number over all kinds.
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

/// Losses of a run so far.
#[derive(Debug, Default)]
pub(crate) struct LossCounts {
    reported: [u64; KINDS],
    found: [u64; KINDS],
}

impl LossCounts {
    /// Sets the count that the stream reports since the start.
    pub(crate) fn report(&mut self, loss: &Loss) {
        let count = &mut self.reported[loss.kind as usize];
        *count = loss.count.max(*count);
    }

    /// Adds one damaged place in the stream itself.
    pub(crate) fn find(&mut self, kind: LossKind) {
        self.found[kind as usize] += 1;
    }

    /// Returns all losses so far, plus records that were found damaged elsewhere.
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
