//! Limits how long measuring threads may continue without supervision.
//!
//! A thread that polls with a real-time policy ends only when another thread asks it to. That other
//! thread may hang: its terminal accepts no output, its disk is gone, or a debugger stops it. The
//! polling thread would then occupy a CPU for ever. So each polling thread has a lease. The thread
//! that drains the records renews the lease, and polling threads sleep while their lease has
//! expired.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::tsc;

/// Interval at which a thread with an expired lease checks whether the lease was renewed.
const LOOK: Duration = Duration::from_millis(20);

/// Lease that all threads of one workload share. Times are readings of the host's TSC.
#[derive(Debug)]
pub(crate) struct Lease {
    /// Reading of the TSC until which the threads may measure.
    until_tsc: AtomicU64,
    /// Reading of the TSC from which on the threads must end.
    end_tsc: AtomicU64,
}

impl Default for Lease {
    /// Returns a lease that never expires.
    fn default() -> Lease {
        Lease {
            until_tsc: AtomicU64::new(u64::MAX),
            end_tsc: AtomicU64::new(u64::MAX),
        }
    }
}

impl Lease {
    /// Sets the time at which the threads must end.
    pub fn end_at(&self, end_tsc: u64) {
        self.end_tsc.store(end_tsc, Ordering::Release);
    }

    /// Sets the time until which the threads may measure.
    pub fn renew(&self, until_tsc: u64) {
        self.until_tsc.store(until_tsc, Ordering::Release);
    }

    /// Returns the time at which the threads must end.
    pub fn end_tsc(&self) -> u64 {
        self.end_tsc.load(Ordering::Acquire)
    }

    /// Returns the time at which a thread must stop measuring, either to end or to wait for a
    /// renewal.
    pub fn deadline_tsc(&self) -> u64 {
        self.end_tsc().min(self.until_tsc.load(Ordering::Acquire))
    }

    /// Sleeps until the lease is renewed or the threads must end. Returns `true` if the lease is
    /// valid and `false` if the thread must end. A thread calls this function when its deadline has
    /// passed.
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
