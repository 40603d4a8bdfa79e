//! Questions about a recording.

use crate::{Policy, Share};

/// A question that a recording may be unable to answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Question {
    /// Was every gap or wake-up latency at most this long, in nanoseconds?
    Longest(f64),
    /// How often is a gap or a wake-up latency longer than this, in nanoseconds?
    Often(f64),
    /// Was every latency that ends at an event of a probe at most this long, in nanoseconds? A lost
    /// record may have been such an event.
    LongestProbed(f64),
    /// How often is a latency that ends at an event of a probe longer than this, in nanoseconds?
    OftenProbed(f64),
    /// How much time was taken in total, or how many gaps were there?
    Taken,
    /// How much time was taken as this share?
    TakenAs(Share),
    /// How much time did one culprit take? `Some` limits the question to one share; `None` means
    /// any share.
    TakenBy(Option<Share>),
    /// How much time would a task of this policy have lost in the worst case?
    TakenFrom(Policy),
    /// Which blind spots does the recording have at all?
    Anything,
}
