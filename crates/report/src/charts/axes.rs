//! Axes that read as people say times and parts.

use plotly::common::Title;
use plotly::layout::{Axis, AxisType};

/// Lengths in seconds on a logarithmic scale: `20µs`.
pub(super) fn lengths(title: &str) -> Axis {
    Axis::new()
        .title(Title::with_text(title))
        .type_(AxisType::Log)
        .tick_format("~s")
        .tick_suffix("s")
}

/// Nanoseconds as the seconds of such an axis.
pub(super) fn length(ns: u64) -> f64 {
    ns.max(1) as f64 / 1e9
}

/// Seconds since the start of the run.
pub(super) fn run_time() -> Axis {
    plain("time since the start (s)")
}

/// Anything on a plain scale.
pub(super) fn plain(title: &str) -> Axis {
    Axis::new().title(Title::with_text(title))
}

/// Anything on a logarithmic scale, marked at each power of ten.
pub(super) fn logarithmic(title: &str) -> Axis {
    Axis::new()
        .title(Title::with_text(title))
        .type_(AxisType::Log)
        .dtick(1.0)
}
