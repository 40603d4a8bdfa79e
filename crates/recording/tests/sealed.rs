//! Tests that a changed and resealed recording passes the checksums.

use crate::common::{one_of_each, record, replay};
use vmnoise_recording::seal;

#[test]
fn what_is_whole_stays_as_it_is() {
    let whole = record(&one_of_each(), 5);
    assert!(seal(&whole) == whole);
    for end in [0, 3, 900, whole.len() - 60] {
        let (cut, sealed) = (&whole[..end], seal(&whole[..end]));
        assert!(sealed == cut, "{end}");
    }
}

#[test]
fn no_change_is_stopped_by_a_checksum() {
    let whole = record(&one_of_each(), 5);
    let mut read = 0;
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x11;
        let (events, end) = replay(&seal(&changed));
        read += u32::from(end.is_ok() && events != one_of_each());
        let why = end.map_or_else(|error| error.to_string(), |_| String::new());
        // If the version is damaged, nothing is sealed.
        let is_batch = why.contains("in batch");
        assert!(
            !(is_batch && why.contains("its checksum does not fit")),
            "byte {at}: {why}"
        );
    }
    assert!(
        read > 100,
        "{read} changed recordings were read to their ends"
    );
}
