//! The loop of a polling thread. It is the guest program of the microVM in Rust: what is
//! said there (`microvm/guest.rs`) of polling, gaps and blind time holds here.
//!
//! The differences: a reading of the steal clock is a system call, the only one
//! while polling, so what it usually costs is no disturbance; the loop may pause
//! between runtimes, which is blind time like that of writing; and it looks at the
//! interference counter after each reading of the clock. Where the counter stands as
//! it stood after the reading before, nothing interfered between the two looks, so
//! reading and count belong together; where it has moved, both are read again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use vmnoise_events::{Anchor, InterferenceSlot};

use super::interference::{Interference, Reading};
use super::schedule::{Schedule, mono_ns_at};
use super::state::SpinState;
use super::steal::StealClock;
use crate::Error;
use crate::lease::Lease;
use crate::mailbox::{Mailbox, add};
use crate::tsc;
use crate::worker::stays_on;

/// What one thread works with.
pub struct Polling {
    pub cpu: u32,
    pub state: Arc<SpinState>,
    pub steal: StealClock,
    pub interference: Interference,
    pub period_tsc: u64,
    pub runtime_tsc: u64,
}

/// What one step found, with its reading of the clock.
pub enum Step {
    /// Nothing.
    On(u64),
    /// The time to poll is over.
    Due(u64),
    /// The reading lies the threshold or more after the last one, or before it, or
    /// something interfered since.
    Away(u64),
}

/// One step from the reading `last`; `slot` is where interferences are counted.
#[inline(always)]
pub fn step(
    mailbox: &Mailbox,
    slot: &InterferenceSlot,
    threshold_tsc: u64,
    last: Reading,
    until_tsc: u64,
) -> Step {
    let now_tsc = tsc::now();
    let moved = slot.total.load(Ordering::Acquire) != last.interferences;
    if moved || now_tsc.wrapping_sub(last.tsc) >= threshold_tsc {
        return Step::Away(now_tsc);
    }
    mailbox.alive(now_tsc);
    if now_tsc >= until_tsc || now_tsc >= deadline_tsc(mailbox) {
        return Step::Due(now_tsc);
    }
    Step::On(now_tsc)
}

#[inline(always)]
fn deadline_tsc(mailbox: &Mailbox) -> u64 {
    mailbox.control.deadline_tsc.load(Ordering::Relaxed)
}

impl Polling {
    /// Records gaps until the end.
    pub fn run(mut self, lease: &Lease) -> Result<(), Error> {
        let state = Arc::clone(&self.state);
        let mailbox = &*state.mailbox;
        stays_on(self.cpu, "polling thread")?;
        self.steal.advance();
        let origin = tsc::anchor();
        let mut last = self.interference.read(None);
        mailbox.start(last.tsc);
        let schedule = Schedule {
            origin_tsc: last.tsc,
            period_tsc: self.period_tsc,
            runtime_tsc: self.runtime_tsc,
        };
        let mut start_tsc = last.tsc;
        loop {
            if last.tsc >= deadline_tsc(mailbox) {
                if !lease.goes_on() {
                    return Ok(());
                }
                last = self.go_on();
            }
            if last.tsc < start_tsc {
                last = self.pause(start_tsc, lease, &origin);
            }
            last = self.poll(last, schedule.end_tsc(start_tsc, last.tsc))?;
            stays_on(self.cpu, "polling thread")?;
            start_tsc = schedule.next_start_tsc(start_tsc, last.tsc);
        }
    }

    /// Records gaps until `until_tsc` or the deadline; returns the last reading.
    fn poll(&mut self, mut last: Reading, until_tsc: u64) -> Result<Reading, Error> {
        let state = Arc::clone(&self.state);
        let mailbox = &*state.mailbox;
        let counter = self.interference.counter();
        let slot = (*counter).as_ref();
        let threshold_tsc = mailbox.control.threshold_tsc.load(Ordering::Relaxed);
        loop {
            match step(mailbox, slot, threshold_tsc, last, until_tsc) {
                Step::On(now_tsc) => last.tsc = now_tsc,
                Step::Due(now_tsc) => {
                    last.tsc = now_tsc;
                    return Ok(last);
                }
                Step::Away(now_tsc) => {
                    last = self.away(last, now_tsc)?;
                    mailbox.alive(last.tsc);
                    if last.tsc >= until_tsc || last.tsc >= deadline_tsc(mailbox) {
                        return Ok(last);
                    }
                }
            }
        }
    }

    /// Writes a gap down, if it is one; returns the reading from which on to poll.
    #[cold]
    #[inline(never)]
    fn away(&mut self, mut start: Reading, now_tsc: u64) -> Result<Reading, Error> {
        // A gap that ended on another CPU is no gap of this one.
        stays_on(self.cpu, "polling thread")?;
        let mut end = self.settled(start, now_tsc);
        let control = &self.state.mailbox.control;
        let threshold_tsc = control.threshold_tsc.load(Ordering::Relaxed);
        if end.tsc.wrapping_sub(start.tsc) < threshold_tsc {
            return Ok(end);
        }
        let blind_limit_tsc = control.blind_limit_tsc.load(Ordering::Relaxed);
        loop {
            if end.tsc.wrapping_sub(start.tsc).cast_signed() < 0 {
                add(&self.state.mailbox.counters.steps_back, 1);
                return Ok(end);
            }
            self.record(start, end);
            let now = self.interference.read(Some(&self.state.interference));
            let writing_tsc = now.tsc.wrapping_sub(end.tsc);
            let ended = now.tsc >= deadline_tsc(&self.state.mailbox);
            if writing_tsc < blind_limit_tsc || ended {
                let blind_tsc = now.tsc.saturating_sub(end.tsc);
                add(&self.state.mailbox.counters.blind_tsc, blind_tsc);
                return Ok(now);
            }
            (start, end) = (end, now);
        }
    }

    /// The reading `now_tsc` with its count where nothing interfered since `start`;
    /// otherwise a later one.
    fn settled(&mut self, start: Reading, now_tsc: u64) -> Reading {
        let counter = self.interference.counter();
        if (*counter).as_ref().total.load(Ordering::Acquire) == start.interferences {
            return Reading {
                tsc: now_tsc,
                ..start
            };
        }
        self.interference.read(Some(&self.state.interference))
    }

    fn record(&mut self, start: Reading, end: Reading) {
        let stolen = self.steal.advance();
        let mailbox = &self.state.mailbox;
        // The page shows what was taken while polling: pauses are not in it.
        add(&mailbox.steal.steal_ns, stolen.steal_ns);
        let version = mailbox.steal.version.load(Ordering::Relaxed);
        let version = version.wrapping_add(stolen.version_moves);
        mailbox.steal.version.store(version, Ordering::Relaxed);
        let interference = end.interferences.saturating_sub(start.interferences);
        let span_tsc = (start.tsc, end.tsc);
        mailbox.record(&self.state.ring, span_tsc, stolen, interference);
    }

    /// Sleeps until `start_tsc` or the end; returns the reading from which on to poll.
    fn pause(&mut self, start_tsc: u64, lease: &Lease, origin: &Anchor) -> Reading {
        loop {
            let alarm = self.state.alarm();
            let until_tsc = start_tsc.min(lease.end_tsc());
            let now = tsc::anchor();
            if tsc::middle(&now) >= until_tsc {
                break;
            }
            self.state.sleep(mono_ns_at(until_tsc, origin, &now), alarm);
        }
        self.go_on()
    }

    /// Polls again: since the last reading the thread was blind. Returns the reading from
    /// which on to poll.
    fn go_on(&mut self) -> Reading {
        self.steal.advance();
        let now = self.interference.read(None);
        self.state.mailbox.go_on(now.tsc);
        now
    }
}
