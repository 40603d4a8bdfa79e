//! Bursts of values above a limit, which a run may have missed.
//!
//! A run without long values may come from a machine that sometimes has a burst of them. A run
//! excludes this in one of two ways:
//!
//! - Many windows have values above the limit, and so show how such values come.
//! - The run is long enough that it would most likely have met a burst. For this, its time is cut
//!   into cells of the length of the longest assumed burst. The bound of Clopper and Pearson then
//!   limits the part of all cells that are bad. A bad cell has at most as many values above the
//!   limit as a cell has values.

use super::is_excluded;

/// Longest burst that is assumed, in nanoseconds.
pub(crate) const LONGEST_NS: u64 = 100_000_000;
/// Number of windows with values above the limit that show how such values come.
pub(crate) const ENOUGH_WINDOWS: usize = 10;

/// Values above a limit that a run has met.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bursts {
    /// Number of windows with such values.
    pub(crate) windows: usize,
    /// Number of cells of the run.
    pub(crate) cells: u64,
    /// Number of cells with such values.
    pub(crate) bad: u64,
    /// Part of all cells that may be bad: more than 0, and less than 1.
    pub(crate) part: f64,
}

impl Bursts {
    /// Whether a machine that breaks the limit by bursts would most likely have shown them.
    pub(super) fn are_known(&self, risk: f64) -> bool {
        self.are_met() || self.are_excluded(risk)
    }

    pub(super) fn are_met(&self) -> bool {
        self.windows >= ENOUGH_WINDOWS
    }

    fn are_excluded(&self, risk: f64) -> bool {
        let good = self.cells.saturating_sub(self.bad);
        is_excluded(self.bad as f64, good as f64, self.part, risk)
    }

    /// Returns the factor by which a run should be longer to exclude them.
    pub(super) fn times_to_ask_for(&self, risk: f64) -> f64 {
        match self.windows {
            0 => {
                let cells = risk.ln() / (-self.part).ln_1p();
                cells / self.cells.max(1) as f64
            }
            windows => ENOUGH_WINDOWS as f64 / windows as f64,
        }
    }
}
