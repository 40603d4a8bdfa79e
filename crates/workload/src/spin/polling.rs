//! The loop that feels gaps, on a thread of its own CPU. It is the guest program
//! of the microVM in Rust: what is said there of polling, gaps and blind time
//! holds here.
//!
//! The differences: a reading of the steal clock is a system call, the only one
//! while polling, so what it usually costs is no disturbance; and the loop may
//! pause between runtimes, which is blind time like that of writing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use vmnoise_events::Anchor;

use super::Error;
use super::desk::Desk;
use super::schedule::{Schedule, mono_ns_at};
use super::steal::StealClock;
use crate::mailbox::{Mailbox, add};
use crate::tsc;

/// What one thread works with.
pub struct Polling {
    pub cpu: u32,
    pub desk: Arc<Desk>,
    pub steal: StealClock,
    pub period_tsc: u64,
    pub runtime_tsc: u64,
}

/// What one step found, with its reading of the clock.
pub enum Step {
    /// Nothing.
    On(u64),
    /// The time to poll is over.
    Due(u64),
    /// The reading lies the threshold or more after the last one, or before it.
    Away(u64),
}

/// One step from the reading `last_tsc`.
#[inline(always)]
pub fn step(mailbox: &Mailbox, threshold_tsc: u64, last_tsc: u64, until_tsc: u64) -> Step {
    let now_tsc = tsc::now();
    if now_tsc.wrapping_sub(last_tsc) >= threshold_tsc {
        return Step::Away(now_tsc);
    }
    mailbox.pulse.last_tsc.store(now_tsc, Ordering::Release);
    if now_tsc >= until_tsc || now_tsc >= deadline_tsc(mailbox) {
        return Step::Due(now_tsc);
    }
    Step::On(now_tsc)
}

#[inline(always)]
fn deadline_tsc(mailbox: &Mailbox) -> u64 {
    mailbox.orders.deadline_tsc.load(Ordering::Relaxed)
}

impl Polling {
    /// Feels gaps until the deadline.
    pub fn run(mut self) -> Result<(), Error> {
        let desk = Arc::clone(&self.desk);
        let mailbox = &*desk.mailbox;
        self.stay()?;
        self.steal.advance();
        let origin = tsc::anchor();
        let mut last_tsc = tsc::now();
        mailbox.pulse.last_tsc.store(last_tsc, Ordering::Release);
        mailbox.books.first_tsc.store(last_tsc, Ordering::Release);
        let schedule = Schedule {
            origin_tsc: last_tsc,
            period_tsc: self.period_tsc,
            runtime_tsc: self.runtime_tsc,
        };
        let mut start_tsc = last_tsc;
        while last_tsc < deadline_tsc(mailbox) {
            if last_tsc < start_tsc {
                last_tsc = self.pause(last_tsc, start_tsc, &origin);
            }
            last_tsc = self.poll(last_tsc, schedule.end_tsc(start_tsc, last_tsc))?;
            self.stay()?;
            start_tsc = schedule.next_start_tsc(start_tsc, last_tsc);
        }
        Ok(())
    }

    /// Feels gaps until `until_tsc` or the deadline; returns the last reading.
    fn poll(&mut self, mut last_tsc: u64, until_tsc: u64) -> Result<u64, Error> {
        let desk = Arc::clone(&self.desk);
        let mailbox = &*desk.mailbox;
        let threshold_tsc = mailbox.orders.threshold_tsc.load(Ordering::Relaxed);
        loop {
            match step(mailbox, threshold_tsc, last_tsc, until_tsc) {
                Step::On(now_tsc) => last_tsc = now_tsc,
                Step::Due(now_tsc) => return Ok(now_tsc),
                Step::Away(now_tsc) => {
                    last_tsc = self.away(last_tsc, now_tsc)?;
                    mailbox.pulse.last_tsc.store(last_tsc, Ordering::Release);
                    if last_tsc >= until_tsc || last_tsc >= deadline_tsc(mailbox) {
                        return Ok(last_tsc);
                    }
                }
            }
        }
    }

    /// Writes a gap down; returns the reading from which on to poll.
    #[cold]
    #[inline(never)]
    fn away(&mut self, mut start_tsc: u64, mut end_tsc: u64) -> Result<u64, Error> {
        // A gap that ended on another CPU is no gap of this one.
        self.stay()?;
        let orders = &self.desk.mailbox.orders;
        let blind_limit_tsc = orders.blind_limit_tsc.load(Ordering::Relaxed);
        loop {
            if end_tsc.wrapping_sub(start_tsc).cast_signed() < 0 {
                add(&self.desk.mailbox.books.steps_back, 1);
                return Ok(end_tsc);
            }
            self.record(start_tsc, end_tsc);
            let now_tsc = tsc::now();
            let writing_tsc = now_tsc.wrapping_sub(end_tsc);
            let ended = now_tsc >= deadline_tsc(&self.desk.mailbox);
            if writing_tsc < blind_limit_tsc || ended {
                let blind_tsc = now_tsc.saturating_sub(end_tsc);
                add(&self.desk.mailbox.books.blind_tsc, blind_tsc);
                return Ok(now_tsc);
            }
            (start_tsc, end_tsc) = (end_tsc, now_tsc);
        }
    }

    fn record(&mut self, start_tsc: u64, end_tsc: u64) {
        let stolen = self.steal.advance();
        let mailbox = &self.desk.mailbox;
        // The page shows what was taken while polling: pauses are not in it.
        add(&mailbox.steal.steal_ns, stolen.steal_ns);
        let version = mailbox.steal.version.load(Ordering::Relaxed);
        let version = version.wrapping_add(stolen.version_moves);
        mailbox.steal.version.store(version, Ordering::Relaxed);
        mailbox.record(&self.desk.ring, (start_tsc, end_tsc), stolen);
    }

    /// Sleeps until `start_tsc` or the deadline; returns the reading from which on
    /// to poll.
    fn pause(&mut self, last_tsc: u64, start_tsc: u64, origin: &Anchor) -> u64 {
        let mailbox = &self.desk.mailbox;
        loop {
            let alarm = self.desk.alarm();
            let until_tsc = start_tsc.min(deadline_tsc(mailbox));
            let now = tsc::anchor();
            if tsc::middle(&now) >= until_tsc {
                break;
            }
            self.desk.sleep(mono_ns_at(until_tsc, origin, &now), alarm);
        }
        self.steal.advance();
        let now_tsc = tsc::now();
        add(&mailbox.books.blind_tsc, now_tsc.saturating_sub(last_tsc));
        mailbox.pulse.last_tsc.store(now_tsc, Ordering::Release);
        now_tsc
    }

    /// Whether the thread is still where it was pinned. The kernel moves a pinned
    /// thread only off a CPU that goes offline or leaves the cpuset. Costs no system
    /// call: getcpu is in the vDSO.
    fn stay(&self) -> Result<(), Error> {
        let now_on = u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(u32::MAX);
        if now_on == self.cpu {
            return Ok(());
        }
        Err(Error::Moved {
            cpu: self.cpu,
            now_on,
        })
    }
}
