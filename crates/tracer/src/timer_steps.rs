//! Times of the current wake-up, for the task that wakes up. They are in shared memory, so no
//! system call is needed.

use std::sync::Arc;

use vmnoise_events::TimerSlot;

use crate::mapped::MappedCpus;

/// The times that BPF programs write for the periodic task of one CPU. They can be read after the
/// [`crate::Tracer`] is dropped, but then no longer change.
#[derive(Debug)]
pub struct MappedTimerSteps {
    cpus: Arc<MappedCpus>,
    cpu: u32,
}

impl MappedTimerSteps {
    /// Returns the times of a CPU; `None` if there is no such CPU.
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
