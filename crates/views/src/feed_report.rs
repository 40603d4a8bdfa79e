//! Report on a feed from a host to its guest.

use serde::Serialize;
use vmnoise_events::{FeedDetail, Name};

/// Totals of one feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FeedReport {
    /// Address, as on the command line.
    pub feed: String,
    /// Process of the VMM that was served last; `None` if none was.
    pub vm: Option<u32>,
    /// Name of that VM.
    pub name: Option<Name>,
    /// Detail that was sent.
    pub detail: FeedDetail,
    /// Number of frames sent.
    pub frames: u64,
    /// Number of frames that newer ones replaced before they could be sent.
    pub skipped: u64,
    /// Number of bytes sent.
    pub bytes: u64,
    /// Number of writes; docs/feed.md has the cost of each for the guest.
    pub writes: u64,
    /// Number of connections made.
    pub connections: u64,
    /// Number of bytes from the guest, which were discarded.
    pub discarded_bytes: u64,
}
