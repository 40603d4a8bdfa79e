//! The unit of a page: one loss of time, whatever was measured.

use vmnoise_explain::Part;

/// A gap, an exit or a wake-up.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// Lane that lost the time: the number of a CPU, or the id of a vCPU.
    pub lane: u32,
    /// Begin, CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// Length in nanoseconds.
    pub dur_ns: u64,
    /// Parts, which add up to the length.
    pub parts: &'a [Part],
}
