//! One loss of time, for every kind of recording.

use vmnoise_explain::Part;

/// A gap, an exit or a wake-up. Pages call them moments.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// CPU number, or id of the vCPU, that lost the time. Pages call it the lane.
    pub lane: u32,
    /// Begin of the moment, CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// Length of the moment, in nanoseconds.
    pub dur_ns: u64,
    /// Parts of the moment. They add up to its length.
    pub parts: &'a [Part],
}
