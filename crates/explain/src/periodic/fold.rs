//! Gaps folded at a period: where in it they begin, those that keep it in the middle.

use super::Phase;

/// Cells of a fold: an odd number, so that those that keep the period are in the middle of one.
pub const CELLS: usize = 101;

/// Gaps that begin in one part of a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FoldCell {
    /// How many.
    pub gaps: u64,
    /// Their length in all, nanoseconds.
    pub total_ns: u64,
}

/// All gaps, given by begin and length in nanoseconds, those that do not keep it too.
/// The phase counts from `origin_ns`.
pub(super) fn fold(gaps: &[(u64, u64)], origin_ns: u64, phase: Phase) -> Vec<FoldCell> {
    let mut cells = vec![FoldCell::default(); CELLS];
    for (start_ns, dur_ns) in gaps {
        let after_ns = start_ns.abs_diff(origin_ns) as f64;
        let start_ns = if *start_ns < origin_ns {
            -after_ns
        } else {
            after_ns
        };
        let turn = phase.place(start_ns).1 / phase.period_ns + 0.5;
        let cell = ((turn * CELLS as f64) as usize).min(CELLS - 1);
        cells[cell].gaps += 1;
        cells[cell].total_ns += dur_ns;
    }
    cells
}
