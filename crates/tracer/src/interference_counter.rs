//! Interference counters for a polling thread. They are in shared memory, so no system call is
//! needed.

use std::sync::Arc;

use vmnoise_events::InterferenceSlot;

use crate::mapped::MappedCpus;

/// The live interference counters of one CPU. They can be read after the [`crate::Tracer`] is
/// dropped, but then no longer change.
#[derive(Debug)]
pub struct MappedInterferences {
    cpus: Arc<MappedCpus>,
    cpu: u32,
}

impl MappedInterferences {
    /// Returns the counters of a CPU; `None` if there is no such CPU.
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
