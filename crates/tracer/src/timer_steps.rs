//! The steps of a wake-up, for the task that wakes up: shared memory, no system call.

use std::sync::Arc;

use vmnoise_events::TimerSlot;

use crate::mapped::MappedCpus;

/// The times that BPF writes for the periodic task of one CPU. The memory stays valid after the
/// [`crate::Tracer`] is gone, but then nothing changes it.
#[derive(Debug)]
pub struct MappedTimerSteps {
    cpus: Arc<MappedCpus>,
    cpu: u32,
}

impl MappedTimerSteps {
    /// Returns the steps; `None` if there is no such CPU.
    pub(crate) fn new(cpus: Arc<MappedCpus>, cpu: u32) -> Option<MappedTimerSteps> {
        cpus.timer(cpu)?;
        Some(MappedTimerSteps { cpus, cpu })
    }
}

impl AsRef<TimerSlot> for MappedTimerSteps {
    fn as_ref(&self) -> &TimerSlot {
        let slot = self.cpus.timer(self.cpu);
        slot.expect("the slot was there when this was made")
    }
}
