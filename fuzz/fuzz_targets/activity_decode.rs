//! Any bytes into the decoder of the ring buffer's records.
#![no_main]

#[path = "../properties/activity_decode.rs"]
mod property;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| property::check(bytes));
