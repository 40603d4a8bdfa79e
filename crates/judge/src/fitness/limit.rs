//! What a run has to stay below.

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// All that was taken, in millionths of the run.
    Noise,
    /// The longest time taken at one go, in ns.
    Max,
}

impl Figure {
    /// As people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Figure::Noise => "noise",
            Figure::Max => "max",
        }
    }
}

/// A figure, and what it has to be below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// What is limited.
    pub figure: Figure,
    /// In its unit.
    pub below: u64,
}
