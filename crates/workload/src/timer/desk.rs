//! The memory of one periodic task, which whoever drains it shares.

use std::sync::atomic::{AtomicU64, Ordering};

use vmnoise_events::Tally;

use super::ring::Ring;
use crate::mailbox::add;
use crate::tsc;

/// A ring of activations, and when the task began and was last there.
#[derive(Debug)]
pub struct Desk {
    pub ring: Ring,
    /// Time in which it was not to wake up.
    blind_tsc: AtomicU64,
    first_tsc: AtomicU64,
    last_tsc: AtomicU64,
}

impl Desk {
    pub fn new() -> Desk {
        Desk {
            ring: Ring::new(),
            blind_tsc: AtomicU64::new(0),
            first_tsc: AtomicU64::new(0),
            last_tsc: AtomicU64::new(0),
        }
    }

    /// The task goes on after it was not to run since it was last there.
    pub fn goes_on(&self) {
        let now_tsc = tsc::now();
        let last_tsc = self.last_tsc.swap(now_tsc, Ordering::AcqRel);
        add(&self.blind_tsc, now_tsc.saturating_sub(last_tsc));
    }

    /// The task begins.
    pub fn start(&self) {
        let now_tsc = tsc::now();
        self.last_tsc.store(now_tsc, Ordering::Release);
        self.first_tsc.store(now_tsc, Ordering::Release);
    }

    /// The task runs.
    pub fn alive(&self) {
        self.last_tsc.store(tsc::now(), Ordering::Release);
    }

    /// From when to when it was there; zeros before the start.
    pub fn tally(&self, cpu: u32) -> Tally {
        let first_tsc = self.first_tsc.load(Ordering::Acquire);
        let started = first_tsc != 0;
        let blind_tsc = self.blind_tsc.load(Ordering::Acquire);
        Tally {
            cpu,
            first_tsc,
            blind_tsc: (blind_tsc > 0).then_some(blind_tsc),
            last_tsc: if started {
                self.last_tsc.load(Ordering::Acquire)
            } else {
                0
            },
            ..Tally::default()
        }
    }
}
