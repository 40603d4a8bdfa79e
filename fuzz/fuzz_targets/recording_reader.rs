//! Any bytes into the reader of recordings.
#![no_main]

#[path = "../../crates/recording/tests/common/any_bytes.rs"]
mod any_bytes;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = any_bytes::check(bytes);
});
