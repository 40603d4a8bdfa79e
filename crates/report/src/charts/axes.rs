//! Axes of charts, with readable times and percentages.

use serde_json::{Value, json};
use vmnoise_judge::compare::{RecordingKind, Unit};

/// Returns a logarithmic axis for lengths in seconds: `20µs`.
pub(super) fn lengths(title: &str) -> Value {
    json!({"title": {"text": title}, "type": "log", "tickformat": "~s", "ticksuffix": "s"})
}

/// Converts a length from nanoseconds to the seconds of the logarithmic axis; at least 1 ns.
pub(super) fn length(ns: u64) -> f64 {
    ns.max(1) as f64 / 1e9
}

/// Returns a linear axis for lengths in seconds.
pub(super) fn plain_lengths(title: &str) -> Value {
    json!({"title": {"text": title}, "tickformat": "~s", "ticksuffix": "s"})
}

/// Returns an axis for seconds since the start of the run.
pub(super) fn run_time() -> Value {
    plain("time since the start (s)")
}

/// Returns a linear axis for plain numbers.
pub(super) fn plain(title: &str) -> Value {
    json!({"title": {"text": title}})
}

/// Returns an axis for the names of bars.
pub(super) fn names() -> Value {
    json!({"title": {"text": ""}, "automargin": true})
}

/// Returns the factor that converts a figure from its unit to the unit of its axis.
pub(super) const fn scale(unit: Unit) -> f64 {
    match unit {
        Unit::Nanoseconds => 1e-9,
        Unit::Percent | Unit::PerSecond => 1.0,
    }
}

/// Returns the axis for figures of this kind and unit.
pub(super) fn of_figures(kind: RecordingKind, unit: Unit) -> Value {
    match (unit, kind) {
        (Unit::Percent, RecordingKind::Exits) => plain("% of the vCPUs’ time"),
        (Unit::Percent, RecordingKind::Gaps | RecordingKind::Wakeups) => plain("% of the runtime"),
        (Unit::PerSecond, _) => plain("per second"),
        (Unit::Nanoseconds, _) => plain_lengths("length"),
    }
}
