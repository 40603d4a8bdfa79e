//! Any bytes into the reader of recordings.
#![no_main]

#[path = "../properties/recording_reader.rs"]
mod property;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = property::check(bytes);
});
