//! What is asked of a recording.

use crate::{Policy, Share};

/// A question that a recording may be too blind for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Question {
    /// Whether no gap or wake-up was longer than this, in nanoseconds.
    Longest(f64),
    /// How often gaps or wake-ups are longer than this, in nanoseconds.
    Often(f64),
    /// How much time was taken, or how many gaps there were.
    Taken,
    /// How much time a share took.
    TakenAs(Share),
    /// How much time somebody took; under any share where that is `None`.
    TakenBy(Option<Share>),
    /// How much time a task of this policy would have lost at most.
    TakenFrom(Policy),
    /// Anything that a reader may want to know.
    Anything,
}
