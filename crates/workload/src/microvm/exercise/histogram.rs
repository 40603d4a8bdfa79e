//! How the guest writes down what exits took, in the memory of its ring: counts of
//! lengths, exact below 2^[`FINE_BITS`] cycles and to one part in 2048 above, then a
//! few words of their own.

use serde::Serialize;

use crate::mailbox::RING_BYTES;

/// Lengths of fewer bits than this have a count each.
pub const FINE_BITS: u32 = 12;
/// Counts for any u64: each bit more halves the resolution.
const BUCKETS: usize = ((64 - FINE_BITS as usize) << (FINE_BITS - 1)) + (1 << FINE_BITS);

/// The words behind the counts, in cycles of the guest's clock.
#[derive(Debug, Clone, Copy)]
pub enum Word {
    /// The reading before the first exit.
    First,
    /// The reading after the last one.
    Last,
    /// The shortest exit.
    Min,
    /// The longest.
    Max,
    /// All together.
    Total,
}

const WORDS: usize = Word::Total as usize + 1;
const _: () = assert!((BUCKETS + WORDS) * size_of::<u64>() <= RING_BYTES);

impl Word {
    const fn index(self) -> usize {
        BUCKETS + self as usize
    }

    /// Its offset in bytes.
    pub const fn offset(self) -> usize {
        self.index() * size_of::<u64>()
    }
}

/// What exits took, one or more, in the unit that the holder names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// The shortest.
    pub min: u64,
    /// All together over their number, rounded down.
    pub mean: u64,
    /// Half of them took no more, to one part in 2048.
    pub p50: u64,
    /// 99 in 100 took no more, to one part in 2048.
    pub p99: u64,
    /// The longest.
    pub max: u64,
    /// All together.
    pub total: u64,
}

impl Spread {
    /// Converts every length to another unit.
    pub fn map(self, to: impl Fn(u64) -> u64) -> Spread {
        Spread {
            min: to(self.min),
            mean: to(self.mean),
            p50: to(self.p50),
            p99: to(self.p99),
            max: to(self.max),
            total: to(self.total),
        }
    }
}

/// Reads what the guest left: how many exits, how long they took (`None` without
/// one), and the time from the first to the last.
pub fn read(words: &[u64]) -> (u64, Option<Spread>, u64) {
    let word = |word: Word| words[word.index()];
    let counts = &words[..BUCKETS];
    let count: u64 = counts.iter().sum();
    let (min, max, total) = (word(Word::Min), word(Word::Max), word(Word::Total));
    let spread = (count > 0).then(|| Spread {
        min,
        mean: total / count,
        p50: percentile(counts, count, 50).clamp(min, max),
        p99: percentile(counts, count, 99).clamp(min, max),
        max,
        total,
    });
    (
        count,
        spread,
        word(Word::Last).saturating_sub(word(Word::First)),
    )
}

/// The greatest length in the bucket that holds this percentile.
fn percentile(counts: &[u64], count: u64, percent: u64) -> u64 {
    let rank = u128::from(count) * u128::from(percent);
    let mut seen = 0;
    let bucket = counts.iter().position(|&here| {
        seen += u128::from(here) * 100;
        seen >= rank
    });
    bucket.map_or(u64::MAX, |bucket| (first_of(bucket + 1) - 1) as u64)
}

/// The least length that the guest counts in this bucket.
fn first_of(bucket: usize) -> u128 {
    let half = 1 << (FINE_BITS - 1);
    let shift = (bucket / half).saturating_sub(1);
    ((bucket - shift * half) as u128) << shift
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As the guest computes it.
    fn bucket_of(length: u64) -> usize {
        if length < 1 << FINE_BITS {
            return length as usize;
        }
        let shift = length.ilog2() - (FINE_BITS - 1);
        (length >> shift) as usize + ((shift as usize) << (FINE_BITS - 1))
    }

    proptest! {
        #[test]
        fn each_length_is_in_its_bucket(bits in 0u32..64, random: u64) {
            let length = random >> bits;
            let bucket = bucket_of(length);
            let (first, next) = (first_of(bucket), first_of(bucket + 1));
            prop_assert!(bucket < BUCKETS);
            prop_assert!((first..next).contains(&u128::from(length)));
            prop_assert!(next - first <= 1 + first / 2048);
        }
    }

    #[test]
    fn what_the_guest_left_is_read() {
        let mut words = vec![0; BUCKETS + WORDS];
        assert_eq!(read(&words), (0, None, 0));
        for length in (1..=100).map(|n| n * 100) {
            words[bucket_of(length)] += 1;
        }
        let ends = [5_000, 6_000_000, 100, 10_000, 505_000];
        words[BUCKETS..].copy_from_slice(&ends);
        let (count, spread, runtime) = read(&words);
        let spread = spread.unwrap();
        assert_eq!((count, runtime), (100, 5_995_000));
        assert_eq!((spread.min, spread.mean, spread.max), (100, 5_050, 10_000));
        // Lengths from 8192 on are counted in steps of four.
        assert_eq!((spread.p50, spread.p99), (5_001, 9_903));
    }
}
