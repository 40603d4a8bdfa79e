//! Whether two runs differ, for each figure, and by how much.
//!
//! Consecutive gaps, wake-ups and exits are not independent: a noisy second causes many. So each
//! run is cut into windows of equal length, at least [`WINDOWS`] of them. Each figure is computed
//! for each window, and the figures of the windows are ranked.

mod alike;
mod condition;
mod exits;
mod figure;
mod groups;
mod measured;
mod ranks;
mod sample;
mod span;
mod verdict;

pub use condition::Answer;
pub use figure::{Context, Figure, Kind, OfReason, Unit};
pub use groups::{GroupRow, GroupVerdict, Groups, Interval, LEVEL, MOST_RUNS, compare_groups};
pub use measured::{Measured, Measuring};
pub(crate) use sample::{Counted, Track, Windows};
pub use sample::{Sample, Sampler, Window};
pub use span::Span;
pub use verdict::{Row, Verdict, compare, figures_of};

/// Number of windows into which the shorter of two runs is cut.
pub const WINDOWS: u64 = 20;
