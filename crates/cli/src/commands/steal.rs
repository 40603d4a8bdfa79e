//! The steal clock of a CPU, in the hands of the thread that measures there.

use vmnoise_workload::spin::{StealReader, StealReading};

/// What the probes read, as a workload asks for it.
pub fn reader(mut reader: vmnoise_tracer::StealReader) -> StealReader {
    Box::new(move || {
        let (steal_ns, version) = reader.read()?;
        Some(StealReading { steal_ns, version })
    })
}
