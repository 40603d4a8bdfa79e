//! What a join is asked for.

/// Which gaps a join lists, and which count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JoinOptions {
    /// Gaps of at least this length count for the culprits, in nanoseconds.
    pub above_ns: u64,
    /// How many of the longest gaps are listed.
    pub top: usize,
}
