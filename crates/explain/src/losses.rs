//! What was lost, by kind: as the stream tells it, and as it was found to be damaged.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use vmnoise_events::{Loss, LossKind};

const KINDS: usize = LossKind::ALL.len();

/// Events lost, by kind; in JSON an object with the names of all kinds. Counts hold
/// what the stream reported and what was found to be damaged in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Losses([u64; KINDS]);

impl Losses {
    /// How many of this kind.
    pub fn get(&self, kind: LossKind) -> u64 {
        self.0[kind as usize]
    }

    /// Every kind with its count.
    pub fn iter(&self) -> impl Iterator<Item = (LossKind, u64)> {
        LossKind::ALL.into_iter().zip(self.0)
    }

    /// Those that may have been gaps themselves, and not who took one.
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

    /// Those that may have been vCPUs: the kernel's sums stand for everything else.
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

    /// All kinds together.
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
    /// The stream says how many there were since the start.
    pub(crate) fn report(&mut self, loss: &Loss) {
        let count = &mut self.reported[loss.kind as usize];
        *count = loss.count.max(*count);
    }

    /// The stream itself is damaged in one place.
    pub(crate) fn find(&mut self, kind: LossKind) {
        self.found[kind as usize] += 1;
    }

    /// All so far, and these on top, which were found elsewhere to be damaged.
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
