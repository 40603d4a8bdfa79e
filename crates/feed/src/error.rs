//! Errors in bytes that should be a frame.

use crate::layout::{MAX_PAYLOAD_BYTES, VERSION};

/// Reason why bytes of the feed were dropped. The stream continues at the next frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// No frame begins at these bytes. This error is reported once for all bytes up to the next
    /// frame.
    #[error("the feed holds bytes that are no frame")]
    NoFrame,
    /// Bytes of a frame were changed, lost or inserted.
    #[error("a frame of the feed is damaged: its checksum is wrong")]
    Checksum,
    /// A complete frame has another version.
    #[error(
        "the feed is of version {0}, this vmnoise knows version {VERSION}: use the same vmnoise \
         on host and guest"
    )]
    Version(u16),
    /// The header claims more bytes than a frame may have.
    #[error("a frame of the feed claims {0} bytes, at most {MAX_PAYLOAD_BYTES} are allowed")]
    TooLong(u16),
    /// A complete frame has content that vmnoise never writes.
    #[error("a frame of the feed is wrong: {0}")]
    Content(&'static str),
}
