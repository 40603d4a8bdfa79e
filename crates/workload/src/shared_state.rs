//! The differences between the kinds of measuring threads, for the draining thread.

use vmnoise_events::{CpuTally, Event};

use crate::Error;
use crate::mailbox::{Mailbox, SharedPage};

/// The memory that one measuring thread shares with the draining thread.
pub trait SharedState: Send + Sync + 'static {
    /// Returns the mailbox of the thread.
    fn mailbox(&self) -> &Mailbox;

    /// Returns the clocks that the thread can read, in addition to the TSC.
    fn known(&self) -> SharedPage;

    /// Passes on every record, oldest first.
    fn drain(&self, cpu: u32, sink: &mut dyn FnMut(Event));

    /// Returns the counters so far, on the host's TSC.
    fn tally(&self, cpu: u32) -> CpuTally {
        self.mailbox().tally(cpu, self.known())
    }

    /// Moves the end of measuring, on the host's TSC. It takes effect at the thread's next reading.
    fn set_deadline(&self, deadline_tsc: u64) {
        self.mailbox().set_deadline(deadline_tsc);
    }

    /// Wakes a sleeping thread, so that it checks its deadline.
    fn wake(&self, _tid: u32) {}

    /// Checks that the thread is still on its CPU, if it cannot do so itself.
    ///
    /// # Errors
    /// If it is not.
    fn check_cpu(&self, _tid: u32, _cpu: u32) -> Result<(), Error> {
        Ok(())
    }
}
