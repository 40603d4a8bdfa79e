//! Options of a join.

/// Limits for the gaps that a join lists and sums up by culprit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JoinOptions {
    /// Minimum length of a gap whose time is summed up by culprit, in nanoseconds.
    pub above_ns: u64,
    /// Maximum number of longest gaps to list.
    pub top: usize,
}
