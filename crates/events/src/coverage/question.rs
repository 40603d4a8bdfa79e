//! Questions about a recording.

use crate::{Policy, Share};

/// A question that a recording may be unable to answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Question {
    /// Was no gap or wake-up longer than this, in nanoseconds?
    Longest(f64),
    /// How often are gaps or wake-ups longer than this, in nanoseconds?
    Often(f64),
    /// How much time was taken, or how many gaps occurred?
    Taken,
    /// How much time did a share take?
    TakenAs(Share),
    /// How much time did a culprit take, in this share, or in any share if `None`?
    TakenBy(Option<Share>),
    /// How much time would a task of this policy have lost at most?
    TakenFrom(Policy),
    /// Is anything hidden that may interest a reader?
    Anything,
}
