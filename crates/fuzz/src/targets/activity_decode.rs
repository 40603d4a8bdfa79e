//! Property of the activity decoder for any bytes that claim to be records of the ring buffer.

use vmnoise_events::Event;
use vmnoise_tracer::RecordDecoder;

use super::sources::Sources;

/// Size of a record in bytes (`struct vmnoise_record`); the last chunk may be shorter.
const RECORD_BYTES: usize = 64;

/// Decodes these bytes record by record without a panic. Each record must give one activity, or be
/// counted as lost. Sources must be numbered in order, and defined before their use.
pub(super) fn check(bytes: &[u8]) {
    let mut decoder = RecordDecoder::default();
    let mut sources = Sources::default();
    let (mut records, mut activities) = (0, 0);
    for record in bytes.chunks(RECORD_BYTES) {
        records += 1;
        decoder.decode(record, &mut |event| match event {
            Event::Source(source) => sources.define(&source),
            Event::Activity(activity) => {
                assert!(sources.know(activity.source));
                activities += 1;
            }
            other => panic!("the ring buffer holds no {other:?}"),
        });
    }
    assert_eq!(activities + decoder.undecodable(), records);
}
