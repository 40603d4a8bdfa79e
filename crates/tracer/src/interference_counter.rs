//! The interference counters for a polling thread: shared memory, no system call.

use std::sync::Arc;

use vmnoise_events::InterferenceSlot;

use crate::mapped::MappedCpus;

/// The live interference counters of one CPU. The memory stays valid after the [`crate::Tracer`] is
/// gone, but then nothing changes it.
#[derive(Debug)]
pub struct MappedInterferences {
    cpus: Arc<MappedCpus>,
    cpu: u32,
}

impl MappedInterferences {
    /// Returns the counters; `None` if there is no such CPU.
    pub(crate) fn new(cpus: Arc<MappedCpus>, cpu: u32) -> Option<MappedInterferences> {
        cpus.interference(cpu)?;
        Some(MappedInterferences { cpus, cpu })
    }
}

impl AsRef<InterferenceSlot> for MappedInterferences {
    fn as_ref(&self) -> &InterferenceSlot {
        let slot = self.cpus.interference(self.cpu);
        slot.expect("the slot was there when the counter was made")
    }
}
