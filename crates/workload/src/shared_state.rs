//! What differs from one kind of measuring thread to another, as seen by whoever drains it.

use vmnoise_events::{Event, Tally};

use crate::Error;
use crate::mailbox::{Known, Mailbox};

/// The memory that one measuring thread shares with whoever drains it.
pub trait SharedState: Send + Sync + 'static {
    /// The mailbox in it.
    fn mailbox(&self) -> &Mailbox;

    /// What the thread can read beside its clock.
    fn known(&self) -> Known;

    /// Hands out every record, oldest first.
    fn drain(&self, cpu: u32, sink: &mut dyn FnMut(Event));

    /// The counters so far, on the host's TSC.
    fn tally(&self, cpu: u32) -> Tally {
        self.mailbox().tally(cpu, self.known())
    }

    /// Moves the end of measuring, on the host's TSC. A thread that measures obeys at its
    /// next reading.
    fn set_deadline(&self, deadline_tsc: u64) {
        self.mailbox().set_deadline(deadline_tsc);
    }

    /// Wakes a thread that sleeps, to look at its deadline.
    fn wake(&self, _tid: u32) {}

    /// Checks that the thread is still on its CPU, where it cannot do so itself.
    ///
    /// # Errors
    /// If it is not.
    fn check_cpu(&self, _tid: u32, _cpu: u32) -> Result<(), Error> {
        Ok(())
    }
}
