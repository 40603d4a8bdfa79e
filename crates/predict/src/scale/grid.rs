//! Grid of delays for distributions: one cell per nanosecond up to 256 ns, then 128 cells for each
//! doubling. So a delay differs from the edges of its cell by less than 1/128 of the delay.

/// Binary logarithm of the number of cells for each doubling.
const FINENESS: u32 = 7;

/// Returns the index of the cell that contains this delay.
pub(super) fn cell_of(ns: u64) -> usize {
    let doublings = (ns | 1).ilog2().saturating_sub(FINENESS);
    let place = (u64::from(doublings) << FINENESS) + (ns >> doublings);
    place as usize
}

/// Returns the smallest delay in this cell, in nanoseconds.
pub(super) fn edge_ns(cell: usize) -> u64 {
    let cell = cell as u64;
    let doublings = (cell >> FINENESS).saturating_sub(1);
    (cell - (doublings << FINENESS)) << doublings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_follow_one_another_and_are_narrow() {
        for cell in 0..5_000 {
            let (from_ns, to_ns) = (edge_ns(cell), edge_ns(cell + 1));
            assert!(from_ns < to_ns);
            assert_eq!((cell_of(from_ns), cell_of(to_ns - 1)), (cell, cell));
            assert!(to_ns - from_ns <= (from_ns >> FINENESS).max(1));
        }
    }
}
