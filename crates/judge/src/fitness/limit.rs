//! Limits on a run of a command.

/// Figure of a run that can be limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitedFigure {
    /// Time taken, in millionths of the time for which the threads could run.
    Noise,
    /// Longest time taken without a break, in ns.
    Max,
}

impl LimitedFigure {
    /// Returns the name of the figure.
    pub const fn name(self) -> &'static str {
        match self {
            LimitedFigure::Noise => "noise",
            LimitedFigure::Max => "max",
        }
    }
}

/// Limit on a figure of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FitnessLimit {
    /// The limited figure.
    pub figure: LimitedFigure,
    /// Value below which the figure must stay, in the figure's unit.
    pub below: u64,
}
