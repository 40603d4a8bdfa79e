//! Converts instants of CLOCK_MONOTONIC to calendar time.

use jiff::Timestamp;
use vmnoise_events::{Event, RunFacts};

/// Conversion from CLOCK_MONOTONIC to UTC. A recording contains the wall-clock time of its start,
/// and its first reading of CLOCK_MONOTONIC. The time between them is unknown, so the result is too
/// inexact for measurements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WallClock {
    started: Option<Timestamp>,
    first_mono_ns: Option<u64>,
}

impl WallClock {
    pub(crate) fn new(facts: &RunFacts) -> WallClock {
        WallClock {
            started: facts.started_at.parse().ok(),
            first_mono_ns: None,
        }
    }

    pub(crate) fn see(&mut self, event: &Event) {
        if self.first_mono_ns.is_none() {
            self.first_mono_ns = match event {
                Event::Anchor(anchor) => Some(anchor.mono_ns),
                Event::Watermark(mono_ns) if *mono_ns > 0 => Some(*mono_ns),
                _ => None,
            };
        }
    }

    /// Returns the start of the run, in microseconds since 1970 UTC; `None` if unknown.
    pub(crate) fn started_us(&self) -> Option<i64> {
        Some(self.started?.as_microsecond())
    }

    /// Converts an instant of CLOCK_MONOTONIC to microseconds since 1970 UTC; `None` if unknown.
    pub(crate) fn at_us(&self, mono_ns: u64) -> Option<i64> {
        let since_ns = i128::from(mono_ns) - i128::from(self.first_mono_ns?);
        i64::try_from(since_ns / 1_000)
            .ok()?
            .checked_add(self.started_us()?)
    }
}
