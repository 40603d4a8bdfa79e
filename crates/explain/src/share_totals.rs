//! Nanoseconds per share, where unknown is not zero.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use vmnoise_events::Share;

/// Nanoseconds per [`Share`]; `None` where the run could not know it. In JSON an
/// object with all share names in the order of [`Share::ALL`], null for unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShareTotals([Option<u64>; Share::ALL.len()]);

impl ShareTotals {
    /// Asks `ns` for each share.
    pub(crate) fn from_fn(ns: impl FnMut(Share) -> Option<u64>) -> Self {
        Self(Share::ALL.map(ns))
    }

    /// The nanoseconds booked under `share`, `None` where that is unknown.
    pub fn get(&self, share: Share) -> Option<u64> {
        self.0[share as usize]
    }

    /// Every share with its nanoseconds, in the order in which results list them.
    pub fn iter(&self) -> impl Iterator<Item = (Share, Option<u64>)> {
        Share::ALL.into_iter().zip(self.0)
    }

    /// The sum over what is known, in nanoseconds.
    pub fn known_sum_ns(&self) -> u64 {
        self.0.iter().flatten().sum()
    }

    /// The sum of the residual shares, in nanoseconds.
    pub fn residual_ns(&self) -> u64 {
        self.iter()
            .filter(|(share, _)| share.is_residual())
            .filter_map(|(_, ns)| ns)
            .sum()
    }
}

impl Serialize for ShareTotals {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (share, ns) in self.iter() {
            map.serialize_entry(share.name(), &ns)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_is_null_and_never_absent() {
        let totals = ShareTotals::from_fn(|share| (share == Share::Kvm).then_some(5));
        let json = serde_json::to_value(totals).unwrap();
        assert_eq!(json.as_object().unwrap().len(), 17);
        assert_eq!(json["kvm"], 5);
        assert!(json["hw"].is_null());
        assert_eq!(totals.known_sum_ns(), 5);
    }

    #[test]
    fn shares_index_by_their_place_in_all() {
        for (place, share) in Share::ALL.into_iter().enumerate() {
            assert_eq!(share as usize, place);
        }
    }
}
