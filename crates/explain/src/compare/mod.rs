//! Whether two runs differ, figure by figure, and by how much.
//!
//! Gaps that follow one another are not independent: a noisy second makes many. So each
//! run is cut into [`WINDOWS`] or more windows of equal length, every figure is taken of
//! each, and the figures of the windows are ranked.

mod figure;
mod ranks;
mod sample;
mod span;
mod verdict;

pub use figure::{Figure, Unit};
pub(crate) use sample::Windows;
pub use sample::{Sample, Sampler, Window};
pub use span::Span;
pub use verdict::{Row, Verdict, compare};

/// How many windows the shorter of two runs is cut into.
pub const WINDOWS: u64 = 20;
