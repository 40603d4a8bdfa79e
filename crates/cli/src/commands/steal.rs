//! The steal clock of a CPU, for the thread that measures there.

use vmnoise_workload::spin::{ReadSteal, StealReading};

/// Returns the probes' steal clock as the reader that a workload takes.
pub fn reader(mut reader: vmnoise_tracer::OwnStealReader) -> ReadSteal {
    Box::new(move || {
        let (steal_ns, version) = reader.read()?;
        Some(StealReading { steal_ns, version })
    })
}
