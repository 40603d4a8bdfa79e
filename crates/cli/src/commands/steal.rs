//! The steal clock of a CPU, for the thread that measures there.

use vmnoise_workload::spin::{ReadSteal, StealReading};

/// Converts the probes' reader of a steal clock into the reader that a workload takes.
pub fn reader(mut reader: vmnoise_tracer::OwnStealReader) -> ReadSteal {
    Box::new(move || {
        let (steal_ns, version) = reader.read()?;
        Some(StealReading { steal_ns, version })
    })
}
