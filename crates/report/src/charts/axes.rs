//! Axes that read as people say times and parts.

use plotly::common::Title;
use plotly::layout::{Axis, AxisType};

/// Powers of ten of nanoseconds, as a logarithmic axis marks them.
const TIMES: [(f64, &str); 13] = [
    (1e0, "1 ns"),
    (1e1, "10 ns"),
    (1e2, "100 ns"),
    (1e3, "1 µs"),
    (1e4, "10 µs"),
    (1e5, "100 µs"),
    (1e6, "1 ms"),
    (1e7, "10 ms"),
    (1e8, "100 ms"),
    (1e9, "1 s"),
    (1e10, "10 s"),
    (1e11, "100 s"),
    (1e12, "1000 s"),
];

/// Lengths on a logarithmic scale.
pub(super) fn lengths(title: &str) -> Axis {
    Axis::new()
        .title(Title::with_text(title))
        .type_(AxisType::Log)
        .tick_values(TIMES.map(|(ns, _)| ns).to_vec())
        .tick_text(TIMES.map(|(_, text)| text).to_vec())
}

/// Seconds since the start of the run.
pub(super) fn run_time() -> Axis {
    Axis::new()
        .title(Title::with_text("time since the start (s)"))
        .tick_suffix(" s")
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
