//! Limits how long measuring threads may continue without supervision.
//!
//! A thread that polls with a real-time policy ends only because another thread asks it to. If the
//! other thread hangs (its terminal takes nothing, its disk is gone, a debugger holds it), a CPU
//! would be lost for ever. So threads work on a lease. The thread that drains them renews it, and
//! they sleep while it has run out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::tsc;

/// Interval at which a thread without a lease checks for a new lease.
const LOOK: Duration = Duration::from_millis(20);

/// The lease of all threads of one workload, on the host's TSC.
#[derive(Debug)]
pub(crate) struct Lease {
    /// Time until which the threads may work.
    until_tsc: AtomicU64,
    /// Time from which on the threads must end.
    end_tsc: AtomicU64,
}

impl Default for Lease {
    /// Returns a lease that does not run out without a renewal.
    fn default() -> Lease {
        Lease {
            until_tsc: AtomicU64::new(u64::MAX),
            end_tsc: AtomicU64::new(u64::MAX),
        }
    }
}

impl Lease {
    /// Moves the end.
    pub fn end_at(&self, end_tsc: u64) {
        self.end_tsc.store(end_tsc, Ordering::Release);
    }

    /// Moves the time until which the threads may work.
    pub fn renew(&self, until_tsc: u64) {
        self.until_tsc.store(until_tsc, Ordering::Release);
    }

    /// Returns the end.
    pub fn end_tsc(&self) -> u64 {
        self.end_tsc.load(Ordering::Acquire)
    }

    /// Returns when a thread has to stop working, to end or to wait.
    pub fn deadline_tsc(&self) -> u64 {
        self.end_tsc().min(self.until_tsc.load(Ordering::Acquire))
    }

    /// Sleeps until the lease is renewed. Returns false if the end has come. For a thread at its
    /// deadline.
    pub fn goes_on(&self) -> bool {
        loop {
            let now_tsc = tsc::now();
            if now_tsc >= self.end_tsc() {
                return false;
            }
            if now_tsc < self.deadline_tsc() {
                return true;
            }
            std::thread::sleep(LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_has_run_out_is_waited_for_and_an_end_is_not() {
        let lease = Lease::default();
        assert!(lease.goes_on());
        lease.renew(1);
        assert_eq!(lease.deadline_tsc(), 1);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| lease.goes_on());
            std::thread::sleep(Duration::from_millis(50));
            assert!(!waits.is_finished());
            lease.renew(u64::MAX);
            assert!(waits.join().unwrap());
        });
        lease.renew(1);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| lease.goes_on());
            lease.end_at(0);
            assert!(!waits.join().unwrap());
        });
    }
}
