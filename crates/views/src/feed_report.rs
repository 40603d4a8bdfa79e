//! Report on a feed from a host to its guest.

use serde::Serialize;
use vmnoise_events::{FeedDetail, Name};

/// Totals of one feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FeedReport {
    /// Address, as on the command line.
    pub feed: String,
    /// Process id of the VMM that was served last; `None` if no VMM was served.
    pub vm: Option<u32>,
    /// Name of that VM.
    pub name: Option<Name>,
    /// Level of detail of the frames.
    pub detail: FeedDetail,
    /// Number of frames sent.
    pub frames: u64,
    /// Number of frames that were not sent: newer frames replaced them, the queue was full, or the
    /// connection was closed.
    pub skipped: u64,
    /// Number of bytes sent.
    pub bytes: u64,
    /// Number of writes; docs/feed.md has the cost of each for the guest.
    pub writes: u64,
    /// Number of connections made.
    pub connections: u64,
    /// Number of bytes that the guest sent and the feed discarded.
    pub discarded_bytes: u64,
}
