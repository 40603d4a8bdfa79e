//! One value for each share.

use std::fmt;
use std::ops::{AddAssign, Index, IndexMut};

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::Share;

/// One value for each [`Share`], in the order of [`Share::ALL`]. JSON shows the map as an object
/// with the names of all shares.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ShareMap<T>([T; Share::ALL.len()]);

impl<T> ShareMap<T> {
    /// Builds a map by calling `value` for each share.
    pub fn from_fn(value: impl FnMut(Share) -> T) -> ShareMap<T> {
        ShareMap(Share::ALL.map(value))
    }
}

impl<T: Copy> ShareMap<T> {
    /// Returns every share with its value.
    pub fn iter(&self) -> impl Iterator<Item = (Share, T)> + use<T> {
        Share::ALL.into_iter().zip(self.0)
    }

    /// Returns the given shares with their values, in the given order.
    pub fn select<const N: usize>(&self, shares: [Share; N]) -> [(Share, T); N] {
        shares.map(|share| (share, self[share]))
    }
}

impl<T: Copy + Default> ShareMap<T> {
    /// Builds a map. Calls `value` for each share in `shares`, in the given order. All other shares
    /// get the default value.
    pub fn only<const N: usize>(
        shares: [Share; N],
        mut value: impl FnMut(Share) -> T,
    ) -> ShareMap<T> {
        shares.map(|share| (share, value(share))).into()
    }
}

/// Sums stop at the maximum of u64. Only a damaged stream reaches the maximum.
impl<T: Copy + Into<Option<u64>>> ShareMap<T> {
    /// Returns the sum of the known values of the given shares.
    pub fn sum(&self, shares: &[Share]) -> u64 {
        let known = shares.iter().filter_map(|share| self[*share].into());
        known.fold(0, u64::saturating_add)
    }

    /// Returns the sum of all known values.
    pub fn total(&self) -> u64 {
        self.sum(&Share::ALL)
    }
}

impl ShareMap<u64> {
    /// Returns the value of each share that is not 0 or for which `is_known` returns `true`. All
    /// other shares get `None`.
    pub fn known(&self, is_known: impl Fn(Share) -> bool) -> ShareMap<Option<u64>> {
        ShareMap::from_fn(|share| {
            let ns = self[share];
            (ns > 0 || is_known(share)).then_some(ns)
        })
    }
}

impl ShareMap<Option<u64>> {
    /// Returns the sum of the known values of the given shares; `None` if no value is known.
    pub fn sum_of_known(&self, shares: &[Share]) -> Option<u64> {
        let known = shares.iter().filter_map(|share| self[*share]);
        known.reduce(u64::saturating_add)
    }

    /// Returns the sum of the values of the given shares; `None` if any of these values is unknown.
    pub fn sum_of_all(&self, shares: &[Share]) -> Option<u64> {
        let mut shares = shares.iter();
        shares.try_fold(0_u64, |sum, share| Some(sum.saturating_add(self[*share]?)))
    }
}

impl<T> Index<Share> for ShareMap<T> {
    type Output = T;

    fn index(&self, share: Share) -> &T {
        &self.0[share as usize]
    }
}

impl<T> IndexMut<Share> for ShareMap<T> {
    fn index_mut(&mut self, share: Share) -> &mut T {
        &mut self.0[share as usize]
    }
}

impl<T: Copy + Default> Default for ShareMap<T> {
    fn default() -> ShareMap<T> {
        ShareMap::from_fn(|_| T::default())
    }
}

impl<T: Copy + Default, const N: usize> From<[(Share, T); N]> for ShareMap<T> {
    fn from(known: [(Share, T); N]) -> ShareMap<T> {
        let mut map = ShareMap::default();
        for (share, value) in known {
            map[share] = value;
        }
        map
    }
}

impl AddAssign for ShareMap<u64> {
    fn add_assign(&mut self, more: ShareMap<u64>) {
        for (sum, more) in self.0.iter_mut().zip(more.0) {
            *sum = sum.saturating_add(more);
        }
    }
}

impl<T: Copy + fmt::Debug> fmt::Debug for ShareMap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<T: Copy + Serialize> Serialize for ShareMap<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (share, value) in self.iter() {
            map.serialize_entry(share.name(), &value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use super::*;

    #[test]
    fn unknown_is_null_and_never_absent() {
        let totals = ShareMap::from([(Share::Kvm, Some(5))]);
        let json = serde_json::to_value(totals).unwrap();
        assert_eq!(json.as_object().unwrap().len(), Share::ALL.len());
        assert_eq!(json["kvm"], 5);
        assert!(json["hw"].is_null());
        assert_eq!(totals.total(), 5);
    }

    #[test]
    fn shares_index_by_their_place_in_all() {
        let places = ShareMap::from_fn(|share| share as usize);
        assert!(
            places
                .iter()
                .map(|(_, place)| place)
                .eq(0..Share::ALL.len())
        );
        assert!(
            Share::ALL
                .into_iter()
                .enumerate()
                .all(|(at, share)| places[share] == at)
        );
    }

    #[test]
    fn a_sum_ends_where_its_numbers_end() {
        let mut sum = ShareMap::only(Share::OF_EXITS, |_| u64::MAX - 1);
        sum += ShareMap::from([(Share::Kvm, 7)]);
        assert_eq!((sum[Share::Kvm], sum[Share::Vmm]), (u64::MAX, u64::MAX - 1));
        assert_eq!((sum[Share::Hw], sum.total()), (0, u64::MAX));
    }

    #[test]
    fn what_was_booked_is_known_whoever_saw_it() {
        let known = ShareMap::from([(Share::Kvm, 5)]).known(|share| share == Share::Vmm);
        let of_exits = known.select([Share::Kvm, Share::Vmm, Share::Blocked]);
        assert_eq!(of_exits.map(|(_, ns)| ns), [Some(5), Some(0), None]);
        assert_eq!(known.sum_of_all(&[Share::Kvm, Share::Vmm]), Some(5));
        assert_eq!(known.sum_of_all(&[Share::Kvm, Share::Blocked]), None);
        assert_eq!(known.sum_of_known(&[Share::Kvm, Share::Blocked]), Some(5));
        assert_eq!(known.sum_of_known(&[Share::Blocked]), None);
    }
}
