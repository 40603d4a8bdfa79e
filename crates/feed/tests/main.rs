//! Tests of the feed's bytes: their format, the corpus, and any other bytes.
#![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

mod common;

mod any_stream;
mod corpus;
mod format;

use vmnoise_events::HostFrame;
use vmnoise_feed::{FrameDecoder, FrameError};

/// Returns all frames and errors of a stream, in order.
fn decode(bytes: &[u8]) -> Vec<Result<HostFrame, FrameError>> {
    let mut found = Vec::new();
    FrameDecoder::new().push(bytes, &mut |one| found.push(one));
    found
}
