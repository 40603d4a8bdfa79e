//! Axes with readable times and parts.

use serde_json::{Value, json};
use vmnoise_judge::compare::{RecordingKind, Unit};

/// Lengths in seconds on a logarithmic scale: `20µs`.
pub(super) fn lengths(title: &str) -> Value {
    json!({"title": {"text": title}, "type": "log", "tickformat": "~s", "ticksuffix": "s"})
}

/// Converts nanoseconds to the seconds of such an axis.
pub(super) fn length(ns: u64) -> f64 {
    ns.max(1) as f64 / 1e9
}

/// Lengths in seconds on a linear scale.
pub(super) fn plain_lengths(title: &str) -> Value {
    json!({"title": {"text": title}, "tickformat": "~s", "ticksuffix": "s"})
}

/// Seconds since the begin of the run.
pub(super) fn run_time() -> Value {
    plain("time since the start (s)")
}

/// Anything on a linear scale.
pub(super) fn plain(title: &str) -> Value {
    json!({"title": {"text": title}})
}

/// Names of bars.
pub(super) fn names() -> Value {
    json!({"title": {"text": ""}, "automargin": true})
}

/// Factor from a figure to its axis.
pub(super) const fn scale(unit: Unit) -> f64 {
    match unit {
        Unit::Nanoseconds => 1e-9,
        Unit::Percent | Unit::PerSecond => 1.0,
    }
}

/// Axis of a figure.
pub(super) fn of_figures(kind: RecordingKind, unit: Unit) -> Value {
    match (unit, kind) {
        (Unit::Percent, RecordingKind::Exits) => plain("% of the vCPUs’ time"),
        (Unit::Percent, RecordingKind::Gaps | RecordingKind::Wakeups) => plain("% of the runtime"),
        (Unit::PerSecond, _) => plain("per second"),
        (Unit::Nanoseconds, _) => plain_lengths("length"),
    }
}
