//! Property of the exit decoder for any records of the ring buffer of exits.

use vmnoise_events::Event;
use vmnoise_tracer::ExitDecoder;

use super::sources::Sources;

/// Size of an activity's record, and a size that no record has, in bytes.
const OTHER_SIZES: [usize; 2] = [64, 7];

/// Decodes records. Before each record, a byte chooses its size. Each record must give one or two
/// events, or be counted as lost. Only a write of a TSC offset may give no event.
pub(super) fn check(bytes: &[u8]) {
    let sizes = [&ExitDecoder::SIZES[..], &OTHER_SIZES].concat();
    let write = ExitDecoder::SIZES[2];
    let mut decoder = ExitDecoder::default();
    let mut sources = Sources::default();
    let mut rest = bytes;
    while let Some((size, more)) = rest.split_first() {
        let size = sizes[usize::from(*size) % sizes.len()];
        let (record, more) = more.split_at(size.min(more.len()));
        rest = more;
        let before = decoder.undecodable();
        let mut reported = 0;
        decoder.decode(record, &mut |event| match event {
            Event::Source(source) => sources.define(&source),
            Event::Activity(activity) => {
                assert!(sources.know(activity.source));
                reported += 1;
            }
            Event::VcpuInterval(interval) => {
                assert!(interval.source.is_none_or(|source| sources.know(source)));
                reported += 1;
            }
            Event::Exit(exit) => {
                // The parts of the exit come from the kernel, and the rest is KVM's.
                assert!(exit.exit.split.total() >= exit.exit.dur_ns());
                reported += 1;
            }
            other => panic!("the ring buffer holds no {other:?}"),
        });
        let lost = decoder.undecodable() - before;
        let is_write = record.len() == write;
        assert!(
            lost + reported > 0 || is_write,
            "{} bytes are gone",
            record.len()
        );
        assert!(lost <= 1 && reported <= 2 && (lost == 0 || reported == 0));
    }
}
