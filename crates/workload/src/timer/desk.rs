//! The memory of one periodic task, which whoever drains it shares.

use std::sync::atomic::{AtomicU64, Ordering};

use vmnoise_events::Tally;

use super::ring::Ring;
use crate::tsc;

/// A ring of activations, and when the task began and was last there.
#[derive(Debug)]
pub struct Desk {
    pub ring: Ring,
    deadline_tsc: AtomicU64,
    first_tsc: AtomicU64,
    last_tsc: AtomicU64,
}

impl Desk {
    pub fn new() -> Desk {
        Desk {
            ring: Ring::new(),
            deadline_tsc: AtomicU64::new(u64::MAX),
            first_tsc: AtomicU64::new(0),
            last_tsc: AtomicU64::new(0),
        }
    }

    pub fn set_deadline(&self, deadline_tsc: u64) {
        self.deadline_tsc.store(deadline_tsc, Ordering::Release);
    }

    /// Whether the deadline has come.
    pub fn is_over(&self) -> bool {
        tsc::now() >= self.deadline_tsc.load(Ordering::Acquire)
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
        Tally {
            cpu,
            first_tsc,
            last_tsc: if started {
                self.last_tsc.load(Ordering::Acquire)
            } else {
                0
            },
            ..Tally::default()
        }
    }
}
