//! Whether two runs differ, figure by figure, and by how much.
//!
//! Gaps, wake-ups and exits that follow one another are not independent: a noisy second makes many. So each
//! run is cut into [`WINDOWS`] or more windows of equal length, every figure is taken of
//! each, and the figures of the windows are ranked.

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

/// How many windows the shorter of two runs is cut into.
pub const WINDOWS: u64 = 20;
