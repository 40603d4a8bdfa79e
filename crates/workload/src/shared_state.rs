//! Interface of the draining thread to the different kinds of measuring threads.

use vmnoise_events::{CpuTally, Event};

use crate::Error;
use crate::mailbox::{Mailbox, SharedPage};

/// Memory that one measuring thread shares with the draining thread.
pub trait SharedState: Send + Sync + 'static {
    /// Returns the mailbox of the thread.
    fn mailbox(&self) -> &Mailbox;

    /// Returns which clocks and counters the thread can read, in addition to the TSC.
    fn known(&self) -> SharedPage;

    /// Passes all records to `sink`, oldest first.
    fn drain(&self, cpu: u32, sink: &mut dyn FnMut(Event));

    /// Returns the counters so far. Times are readings of the host's TSC.
    fn tally(&self, cpu: u32) -> CpuTally {
        self.mailbox().tally(cpu, self.known())
    }

    /// Sets the time at which measuring ends, as a reading of the host's TSC. The thread checks the
    /// new time at its next reading.
    fn set_deadline(&self, deadline_tsc: u64) {
        self.mailbox().set_deadline(deadline_tsc);
    }

    /// Wakes a sleeping thread, so that it checks its deadline.
    fn wake(&self, _tid: u32) {}

    /// Checks that the thread is still on its CPU. Does nothing for threads that check this
    /// themselves.
    ///
    /// # Errors
    /// If the thread may run on another CPU.
    fn check_cpu(&self, _tid: u32, _cpu: u32) -> Result<(), Error> {
        Ok(())
    }
}
