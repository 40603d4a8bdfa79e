//! Options of a join.

/// Selection of the gaps that a join lists and counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JoinOptions {
    /// Minimum length of a gap that counts for the culprits, in nanoseconds.
    pub above_ns: u64,
    /// Number of longest gaps to list.
    pub top: usize,
}
