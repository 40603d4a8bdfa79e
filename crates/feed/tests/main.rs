//! The bytes of the feed: their format, the corpus, and any others.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod common;

mod any_stream;
mod corpus;
mod format;

use vmnoise_events::HostFrame;
use vmnoise_feed::{Decoder, FrameError};

/// All that a stream gives, in order.
fn decode(bytes: &[u8]) -> Vec<Result<HostFrame, FrameError>> {
    let mut found = Vec::new();
    Decoder::new().push(bytes, &mut |one| found.push(one));
    found
}
