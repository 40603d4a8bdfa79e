//! Any bytes into the decoder of the feed.
#![no_main]

#[path = "../properties/feed_decoder.rs"]
mod property;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = property::check(bytes);
});
