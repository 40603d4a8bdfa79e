//! Compact store of durations in nanoseconds. There may be tens of millions of durations, and
//! hardly any is longer than four seconds.

use std::collections::HashMap;

/// Marks a duration in `short` that does not fit in 32 bits; `long` has its value.
const LONG: u32 = u32::MAX;

/// Any number of durations. Nearly all of them need only four bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lengths {
    short: Vec<u32>,
    /// Durations that do not fit in 32 bits, by their index in `short`.
    long: HashMap<usize, u64>,
}

impl Lengths {
    /// Appends a duration in nanoseconds.
    pub(crate) fn push(&mut self, ns: u64) {
        let short = u32::try_from(ns).unwrap_or(LONG);
        if short == LONG {
            self.long.insert(self.short.len(), ns);
        }
        self.short.push(short);
    }

    /// Returns the duration at this index, in nanoseconds.
    pub(crate) fn at(&self, place: usize) -> u64 {
        match self.short[place] {
            LONG => self.long[&place],
            short => u64::from(short),
        }
    }

    /// Returns all durations, in the order in which they were appended.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        (0..self.short.len()).map(|place| self.at(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_comes_back() {
        let all = [0, 7, u64::from(LONG) - 1, u64::from(LONG), u64::MAX];
        let mut lengths = Lengths::default();
        all.into_iter().for_each(|ns| lengths.push(ns));
        assert_eq!(lengths.iter().collect::<Vec<u64>>(), all);
    }
}
