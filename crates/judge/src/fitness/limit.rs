//! Limits on a run.

/// Figure that can be limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitedFigure {
    /// Time taken, in millionths of the run.
    Noise,
    /// Longest time taken without a break, in ns.
    Max,
}

impl LimitedFigure {
    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            LimitedFigure::Noise => "noise",
            LimitedFigure::Max => "max",
        }
    }
}

/// Limit on a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FitnessLimit {
    /// Figure.
    pub figure: LimitedFigure,
    /// Value below which the figure must stay, in its unit.
    pub below: u64,
}
