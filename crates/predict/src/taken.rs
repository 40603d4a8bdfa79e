//! Time that was taken in one run of a CPU, prepared for searches over windows.

use std::ops::Range;
use std::sync::Arc;

/// Number of consecutive gaps in a block. The taken time of each block is summed in advance, so
/// that a search need not visit each gap.
pub(crate) const BLOCK: usize = 16;

/// Time that was taken in each gap of a run: the whole gap, or a part of the gap.
#[derive(Debug, Clone)]
pub struct TakenTime<'a> {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    pub(crate) begins_ns: &'a [u64],
    pub(crate) lengths_ns: &'a [u64],
    taken_ns: Option<Arc<Vec<u64>>>,
    /// For each block, the time that was taken before the block; the last entry is the total.
    sums_ns: Arc<Vec<u64>>,
}

impl<'a> TakenTime<'a> {
    /// Creates a value from the begin and the end of the run, and from gaps that are ascending and
    /// do not overlap. `taken_ns` is the time taken in each gap; `None` if all of each gap was
    /// taken.
    pub(crate) fn new(
        (from_ns, to_ns): (u64, u64),
        (begins_ns, lengths_ns): (&'a [u64], &'a [u64]),
        taken_ns: Option<Arc<Vec<u64>>>,
    ) -> TakenTime<'a> {
        let of_gaps = taken_ns.as_deref().map_or(lengths_ns, Vec::as_slice);
        let mut sum_ns = 0;
        let blocks = of_gaps.chunks(BLOCK).map(|block| {
            sum_ns += block.iter().sum::<u64>();
            sum_ns
        });
        let sums_ns = std::iter::once(0).chain(blocks).collect();
        TakenTime {
            from_ns,
            to_ns,
            begins_ns,
            lengths_ns,
            taken_ns,
            sums_ns: Arc::new(sums_ns),
        }
    }
}

impl TakenTime<'_> {
    /// Returns the time taken in each gap, in nanoseconds. It is at most the gap's length.
    pub(crate) fn taken_ns(&self) -> &[u64] {
        match &self.taken_ns {
            Some(taken_ns) => &taken_ns[..self.begins_ns.len()],
            None => self.lengths_ns,
        }
    }

    /// Returns the time taken in these blocks, in nanoseconds.
    pub(crate) fn in_blocks_ns(&self, blocks: Range<usize>) -> u64 {
        self.sums_ns[blocks.end] - self.sums_ns[blocks.start]
    }

    /// Returns the time taken in these gaps, in nanoseconds.
    pub(crate) fn in_gaps_ns(&self, gaps: Range<usize>) -> u64 {
        let sum_ns = |gaps: Range<usize>| self.taken_ns()[gaps].iter().sum::<u64>();
        let whole = gaps.start.div_ceil(BLOCK)..gaps.end / BLOCK;
        match whole.start < whole.end {
            true => {
                let before_ns = sum_ns(gaps.start..whole.start * BLOCK);
                let behind_ns = sum_ns(whole.end * BLOCK..gaps.end);
                before_ns + self.in_blocks_ns(whole) + behind_ns
            }
            false => sum_ns(gaps),
        }
    }

    /// Returns the first fraction `part` of the run. If a gap would be cut, the result ends before
    /// that gap.
    pub(crate) fn first(&self, part: f64) -> Self {
        let end_ns = self.from_ns + (self.span_ns() as f64 * part.clamp(0.0, 1.0)) as u64;
        let gaps = self
            .begins_ns
            .partition_point(|begin_ns| *begin_ns < end_ns);
        let mut first = self.clone();
        first.to_ns = end_ns;
        first.keep(gaps);
        if let Some(last) = gaps.checked_sub(1)
            && self.begins_ns[last] + self.lengths_ns[last] > end_ns
        {
            first.to_ns = self.begins_ns[last];
            first.keep(last);
        }
        first
    }

    fn keep(&mut self, gaps: usize) {
        self.begins_ns = &self.begins_ns[..gaps];
        self.lengths_ns = &self.lengths_ns[..gaps];
    }

    /// Returns the duration of the run, in nanoseconds.
    pub fn span_ns(&self) -> u64 {
        self.to_ns - self.from_ns
    }

    /// Returns the time taken in all gaps, in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.in_gaps_ns(0..self.begins_ns.len())
    }
}
