//! Bursts of values above a limit that a run may have missed.
//!
//! A machine that rarely has a burst of long values may produce a run without any long value. A run
//! excludes rare bursts in one of two ways:
//!
//! - Many windows have values above the limit. The run shows how often long values occur.
//! - The run is so long that it would most likely have contained a burst. The run is divided into
//!   cells that are as long as the longest assumed burst. The Clopper-Pearson bound then limits the
//!   part of cells that are bad. A bad cell has values above the limit: at most as many as a cell
//!   has values.

use super::is_excluded;

/// Length of the longest burst that is assumed, in nanoseconds. Also the length of a cell.
pub(crate) const LONGEST_NS: u64 = 100_000_000;
/// Least number of windows with values above the limit that shows how often long values occur.
pub(crate) const ENOUGH_WINDOWS: usize = 10;

/// Numbers of windows and cells of a run that have values above a limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bursts {
    /// Number of windows with values above the limit.
    pub(crate) windows: usize,
    /// Number of cells in the run.
    pub(crate) cells: u64,
    /// Number of cells with values above the limit.
    pub(crate) bad: u64,
    /// Part of all cells that may be bad: above 0 and below 1.
    pub(crate) part: f64,
}

impl Bursts {
    /// Returns whether a machine that breaks the limit by bursts would most likely have shown one
    /// in this run.
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

    /// Returns the factor by which a run should be longer to exclude bursts.
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
