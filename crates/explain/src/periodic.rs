//! Looks for a beat in gaps that no witness explains.

/// A beat that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Beat {
    pub(crate) period_ns: f64,
    pub(crate) jitter_ns: f64,
    /// Gaps on the beat, and their total length in nanoseconds.
    pub(crate) gaps: u64,
    pub(crate) total_ns: u64,
}

/// Searches gaps, given by begin and length in nanoseconds.
pub(crate) fn find(_gaps: &[(u64, u64)]) -> Option<Beat> {
    None
}
