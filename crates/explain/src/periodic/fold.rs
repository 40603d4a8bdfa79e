//! Folds gaps at a period: counts the gaps by their start within the period. The gaps that keep the
//! period lie in the middle.

use super::Phase;

/// Number of cells of a fold. The number is odd, so that the periodic gaps lie in the middle of one
/// cell.
pub const CELLS: usize = 101;

/// Gaps that start in one part of a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FoldCell {
    /// Number of gaps.
    pub gaps: u64,
    /// Total length of the gaps, in nanoseconds.
    pub total_ns: u64,
}

/// Returns the cells for all gaps, including gaps that do not keep the period. Each gap is given by
/// start and length in nanoseconds. `phase` counts time from `origin_ns`.
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
