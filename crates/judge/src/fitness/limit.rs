//! Limits on a run.

/// Figure that can be limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Time taken, in millionths of the run.
    Noise,
    /// Longest time taken without a break, in ns.
    Max,
}

impl Figure {
    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Figure::Noise => "noise",
            Figure::Max => "max",
        }
    }
}

/// Limit on a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Figure.
    pub figure: Figure,
    /// Value below which the figure must stay, in its unit.
    pub below: u64,
}
