//! Values above a limit that come together, and that a run may not have met.
//!
//! A run whose values are all alike may belong to a machine that has a burst of long ones now and then: nothing in the
//! run says so. Two things do: values above the limit in many windows, which show how they come; or so much time that a
//! burst would most likely have been met. The time is counted in cells that a burst fills at most: no more cells are bad
//! than the bound of Clopper and Pearson, and a bad cell has no more values above the limit than a cell has values.

use super::is_excluded;

/// A burst lasts no longer than this, nanoseconds.
pub(crate) const LONGEST_NS: u64 = 100_000_000;
/// So many of all windows show how values above the limit come.
const ENOUGH_WINDOWS: usize = 10;

/// What a run has met of the values above a limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bursts {
    /// In how many windows there are any.
    pub(crate) windows: usize,
    /// How many cells the run has.
    pub(crate) cells: u64,
    /// In how many of them there are any.
    pub(crate) bad: u64,
    /// What part of all cells may be bad: more than 0, and less than 1.
    pub(crate) part: f64,
}

impl Bursts {
    /// Whether a machine that breaks the limit by bursts most likely would have shown that.
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

    /// How many times as long a run knows them, by what this one met.
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
