//! What is wrong with bytes that should be a frame.

use crate::layout::{MAX_PAYLOAD_BYTES, VERSION};

/// Why bytes were thrown away. The stream goes on at the next frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// No frame begins here. Told once, however many bytes follow until the next frame.
    #[error("the feed holds bytes that are no frame")]
    NoFrame,
    /// Bytes were changed, lost or put in between.
    #[error("a frame of the feed is damaged: its checksum is wrong")]
    Checksum,
    /// A whole frame, but of another version.
    #[error(
        "the feed is of version {0}, this vmnoise knows version {VERSION}: use the same vmnoise \
         on host and guest"
    )]
    Version(u16),
    /// The header claims more than any frame may have.
    #[error("a frame of the feed claims {0} bytes, at most {MAX_PAYLOAD_BYTES} are allowed")]
    TooLong(u16),
    /// Whole, but no vmnoise writes this.
    #[error("a frame of the feed is wrong: {0}")]
    Content(&'static str),
}
