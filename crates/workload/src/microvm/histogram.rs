//! Histograms that the guest writes into the memory of its ring. They count times, exactly below
//! 2^[`FINE_BITS`] cycles and with an error of one part in 2048 above. A few other words follow the
//! counts.

use serde::Serialize;

use crate::mailbox::RING_BYTES;

/// Number of bits up to which each time has a count of its own.
pub const FINE_BITS: u32 = 12;
/// Number of counts for all times that fit in a u64. For each further bit, a count covers twice as
/// many times.
const BUCKETS: usize = ((64 - FINE_BITS as usize) << (FINE_BITS - 1)) + (1 << FINE_BITS);

/// Returns assembly code that defines the macro `vmnoise_book_length`. The macro counts the time in
/// `rbx` in the histogram at `rsi`. It updates the shortest time in `r9`, the longest time in `r10`
/// and the sum in `r11`. It overwrites `rbx` and `rcx`. The assembly code needs the operands `fine`
/// and `fine_bits`.
macro_rules! book_length {
    () => {
        r#"
        .macro vmnoise_book_length
            add     r11, rbx
            cmp     rbx, r9
            cmovb   r9, rbx
            cmp     rbx, r10
            cmova   r10, rbx
            xor     ecx, ecx
            cmp     rbx, {fine}
            jb      97f
            bsr     rcx, rbx
            sub     ecx, {fine_bits} - 1
            shr     rbx, cl
            shl     ecx, {fine_bits} - 1
            add     rbx, rcx
        97: inc     qword ptr [rsi + rbx * 8]
        .endm
        "#
    };
}
pub(super) use book_length;

/// Words that follow the counts. All except `Early` are in cycles of the guest's TSC.
#[derive(Debug, Clone, Copy)]
pub enum Word {
    /// Reading of the TSC before the first exit or timer.
    First,
    /// Reading of the TSC after the last exit or timer.
    Last,
    /// Shortest of all times.
    Min,
    /// Longest of all times.
    Max,
    /// Sum of all times.
    Total,
    /// Number of timers that came before they were due. The histogram counts each of them as 0.
    Early,
    /// Largest time by which a timer came too early.
    Earliest,
}

const WORDS: usize = Word::Earliest as usize + 1;
/// Number of words that the guest may write.
pub const WRITTEN: usize = BUCKETS + WORDS;
const _: () = assert!(WRITTEN * size_of::<u64>() <= RING_BYTES);

impl Word {
    const fn index(self) -> usize {
        BUCKETS + self as usize
    }

    /// Returns the offset of the word from the begin of the histogram, in bytes.
    pub const fn offset(self) -> usize {
        self.index() * size_of::<u64>()
    }
}

/// Summary of one or more durations. The owner of the summary defines their unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// Shortest duration.
    pub min: u64,
    /// Mean duration, rounded down.
    pub mean: u64,
    /// Median duration, exact to one part in 2048.
    pub p50: u64,
    /// 99th percentile of the durations, exact to one part in 2048.
    pub p99: u64,
    /// Longest duration.
    pub max: u64,
    /// Sum of all durations.
    pub total: u64,
}

impl Spread {
    /// Converts every duration to another unit.
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

/// Reads the guest's histogram. Returns the number of counted times, their summary (`None` if there
/// are none), and the time from [`Word::First`] to [`Word::Last`].
pub fn read(words: &[u64]) -> (u64, Option<Spread>, u64) {
    let word = |it: Word| word(words, it);
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

/// Returns the value that the guest wrote into this word.
pub fn word(words: &[u64], word: Word) -> u64 {
    words[word.index()]
}

/// Returns the non-empty buckets, ascending. Each entry is the longest time of the bucket and its
/// count.
pub fn counts(words: &[u64]) -> Vec<(u64, u64)> {
    let buckets = words[..BUCKETS].iter().enumerate();
    let held = buckets.filter(|(_, count)| **count > 0);
    held.map(|(bucket, &count)| (last_of(bucket), count))
        .collect()
}

/// Returns the longest time of the bucket that contains this percentile.
fn percentile(counts: &[u64], count: u64, percent: u64) -> u64 {
    let rank = u128::from(count) * u128::from(percent);
    let mut seen = 0;
    let bucket = counts.iter().position(|&here| {
        seen += u128::from(here) * 100;
        seen >= rank
    });
    bucket.map_or(u64::MAX, last_of)
}

/// Returns the longest time that the guest counts in this bucket.
fn last_of(bucket: usize) -> u64 {
    (first_of(bucket + 1) - 1) as u64
}

/// Returns the shortest time that the guest counts in this bucket.
fn first_of(bucket: usize) -> u128 {
    let half = 1 << (FINE_BITS - 1);
    let shift = (bucket / half).saturating_sub(1);
    ((bucket - shift * half) as u128) << shift
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Computes the bucket of a time in the same way as the guest.
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
        let mut words = vec![0; WRITTEN];
        assert_eq!(read(&words), (0, None, 0));
        for length in (1..=100).map(|n| n * 100) {
            words[bucket_of(length)] += 1;
        }
        let ends = [5_000, 6_000_000, 100, 10_000, 505_000];
        words[BUCKETS..BUCKETS + ends.len()].copy_from_slice(&ends);
        let (count, spread, runtime) = read(&words);
        let spread = spread.unwrap();
        assert_eq!((count, runtime), (100, 5_995_000));
        assert_eq!((spread.min, spread.mean, spread.max), (100, 5_050, 10_000));
        // From 8192 on, four consecutive times share a bucket.
        assert_eq!((spread.p50, spread.p99), (5_001, 9_903));
        let counts = counts(&words);
        assert_eq!((counts.len(), counts[0]), (100, (100, 1)));
        assert_eq!(counts.last(), Some(&(10_003, 1)));
    }
}
