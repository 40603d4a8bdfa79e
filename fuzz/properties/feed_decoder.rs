//! Property that must hold for any bytes that claim to be a feed.

use vmnoise_events::HostFrame;
use vmnoise_feed::{FrameDecoder, FrameError, encode};

/// Decodes these bytes without a panic, once at a time and once in small pieces, with the same
/// result. Checks that each frame is one that a host could have written. Returns all frames and
/// errors.
pub fn check(bytes: &[u8]) -> Vec<Result<HostFrame, FrameError>> {
    let mut found = Vec::new();
    FrameDecoder::new().push(bytes, &mut |one| found.push(one));

    let mut in_pieces = Vec::new();
    let mut decoder = FrameDecoder::new();
    for piece in bytes.chunks(7) {
        decoder.push(piece, &mut |one| in_pieces.push(one));
    }
    assert_eq!(found, in_pieces);

    for frame in found.iter().flatten() {
        let mut again = Vec::new();
        FrameDecoder::new().push(&encode(frame), &mut |one| again.push(one));
        assert_eq!(again, [Ok(frame.clone())]);
    }
    found
}
