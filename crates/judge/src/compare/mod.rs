//! Decides for each figure whether two runs differ, and by how much.
//!
//! Consecutive gaps, wake-ups and exits depend on each other: a noisy second causes many. So each
//! run is cut into windows of equal length. The shorter run gets [`WINDOWS`] windows, or fewer if
//! windows would be too short. Each figure is computed for each window, and the test ranks the
//! windows by their figures.

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

pub use condition::ConditionAnswer;
pub use figure::{ComparedFigure, LatencyContext, OfReason, RecordingKind, Unit};
pub use groups::{GroupRow, GroupVerdict, Groups, LEVEL, MOST_RUNS, ShiftInterval, compare_groups};
pub use measured::{Measuring, RunFigures};
pub(crate) use sample::{Counted, Track, Windows};
pub use sample::{RunSample, Sampler, Window};
pub use span::StreamSpan;
pub use verdict::{ComparisonVerdict, FigureRow, compare, figures_of};

/// Number of windows into which the shorter of two runs is cut.
pub const WINDOWS: u64 = 20;
