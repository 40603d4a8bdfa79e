//! The memory of one polling thread, which whoever drains it shares.

use std::ffi::c_void;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::mm::{MlockAllFlags, mlock, mlockall};
use rustix::thread::futex;
use rustix::time::Timespec;
use vmnoise_events::{Gap, InterferenceSlot, Tally};

use crate::mailbox::{Counters, Mailbox, RING_BYTES, RING_RECORDS, Record};

const NS_PER_S: u64 = 1_000_000_000;

/// What a thread can read beside its clock.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    pub steal_clock: bool,
    /// That clock counts the returns of the vCPU too.
    pub reloads: bool,
    pub interference: bool,
}

/// A mailbox, its ring, and an alarm for a thread that pauses.
#[derive(Debug)]
pub struct Desk {
    pub mailbox: Box<Mailbox>,
    pub ring: Box<[Record]>,
    /// Interferences while the thread polled, as it found them itself.
    pub interference: InterferenceSlot,
    /// Moves whenever the deadline does: a futex.
    alarm: AtomicU32,
}

impl Desk {
    /// Every page of it is written here, and so is there when it matters.
    pub fn new(threshold_tsc: u64) -> Desk {
        let desk = Desk {
            mailbox: Box::default(),
            ring: (0..RING_RECORDS).map(|_| Record::default()).collect(),
            interference: InterferenceSlot::default(),
            alarm: AtomicU32::new(0),
        };
        desk.mailbox.set_threshold(threshold_tsc);
        desk
    }

    /// Keeps the desk in memory, and with it all that the process has now (its code
    /// too), where that is allowed. Refused (RLIMIT_MEMLOCK), the pages are at the
    /// kernel's mercy, and what it makes of that is felt as gaps.
    pub fn lock_in_memory(&self) {
        if mlockall(MlockAllFlags::CURRENT).is_ok() {
            return;
        }
        let ring = self.ring.as_ptr().cast::<c_void>().cast_mut();
        let mailbox = (&raw const *self.mailbox).cast::<c_void>().cast_mut();
        // SAFETY: both ranges are allocations of our own; locking changes no content.
        let _ = unsafe {
            (
                mlock(ring, RING_BYTES),
                mlock(mailbox, size_of::<Mailbox>()),
            )
        };
    }

    /// Moves the deadline, and wakes the thread to see it.
    pub fn set_deadline(&self, deadline_tsc: u64) {
        self.mailbox.set_deadline(deadline_tsc);
        self.alarm.fetch_add(1, Ordering::Release);
        // It cannot fail for a futex that is mapped.
        let _ = futex::wake(&self.alarm, futex::Flags::PRIVATE, 1);
    }

    /// Where the alarm stands. Look at the deadline after this, never before.
    pub fn alarm(&self) -> u32 {
        self.alarm.load(Ordering::Acquire)
    }

    /// Sleeps until this time of CLOCK_MONOTONIC, until the alarm moves on from
    /// `seen`, or until a signal.
    pub fn sleep(&self, until_mono_ns: u64, seen: u32) {
        let until = Timespec {
            tv_sec: (until_mono_ns / NS_PER_S).cast_signed(),
            tv_nsec: (until_mono_ns % NS_PER_S).cast_signed(),
        };
        // FUTEX_WAIT_BITSET takes an absolute time, and there is no window in which
        // a wake-up is lost. Whatever ends it, the caller looks at the clock.
        let flags = futex::Flags::PRIVATE;
        let _ = futex::wait_bitset(&self.alarm, flags, seen, Some(&until), NonZeroU32::MAX);
    }

    /// Hands out every recorded gap.
    pub fn drain(&self, cpu: u32, known: Known, sink: &mut dyn FnMut(Gap)) {
        self.mailbox.drain(&self.ring, |felt| {
            sink(Gap {
                cpu,
                start_tsc: felt.start_tsc,
                end_tsc: felt.end_tsc,
                steal_ns: felt.steal_ns,
                reloads: felt.reloads,
                light_exits: 0,
                heavy_exits: 0,
                interference: known.interference.then_some(felt.interference),
            });
        });
    }

    /// The counters so far.
    pub fn tally(&self, cpu: u32, known: Known) -> Tally {
        let stolen = known.steal_clock.then(|| self.mailbox.stolen());
        let (blind_tsc, span_tsc) = self.runtime();
        let (first_tsc, last_tsc) = span_tsc.unwrap_or_default();
        Tally {
            cpu,
            first_tsc,
            last_tsc,
            blind_tsc: Some(blind_tsc),
            steal_clock_ns: stolen.map(|(ns, _)| ns),
            reloads: stolen.map(|(_, reloads)| reloads).filter(|_| known.reloads),
            interference: known.interference.then(|| self.interference.counts()),
            ..Tally::default()
        }
    }

    /// Blind time and span that belong together: a whole pause lies between two
    /// readings that do not.
    fn runtime(&self) -> (u64, Option<(u64, u64)>) {
        loop {
            let blind_tsc = self.book(|counters| &counters.blind_tsc);
            let span_tsc = self.mailbox.span_tsc();
            if self.book(|counters| &counters.blind_tsc) == blind_tsc {
                return (blind_tsc, span_tsc);
            }
        }
    }

    /// One counter that the thread keeps.
    pub fn book(&self, of: impl FnOnce(&Counters) -> &AtomicU64) -> u64 {
        of(&self.mailbox.counters).load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use vmnoise_events::InterferenceCounts;

    use super::*;
    use crate::tsc;

    #[test]
    fn a_sleep_ends_by_the_clock_or_by_the_alarm() {
        let desk = Desk::new(1_000);
        let begin = Instant::now();
        let until_mono_ns = tsc::anchor().mono_ns + 20_000_000;
        while tsc::anchor().mono_ns < until_mono_ns {
            desk.sleep(until_mono_ns, desk.alarm());
        }
        assert!(begin.elapsed() >= Duration::from_millis(20));

        let seen = desk.alarm();
        desk.set_deadline(5);
        desk.sleep(until_mono_ns + 60 * NS_PER_S, seen);
        let seen = desk.alarm();
        std::thread::scope(|scope| {
            scope.spawn(|| desk.sleep(until_mono_ns + 60 * NS_PER_S, seen));
            std::thread::sleep(Duration::from_millis(20));
            desk.set_deadline(6);
        });
        assert!(begin.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_tally_knows_what_there_is_to_know() {
        let desk = Desk::new(1_000);
        let tally = |steal_clock, interference| {
            let known = Known {
                steal_clock,
                reloads: steal_clock,
                interference,
            };
            desk.tally(3, known)
        };
        let (tally, all) = (tally(false, false), tally(true, true));
        assert_eq!((tally.cpu, tally.blind_tsc), (3, Some(0)));
        assert_eq!((tally.steal_clock_ns, tally.reloads), (None, None));
        assert_eq!(
            (all.reloads, all.interference),
            (Some(0), Some(InterferenceCounts::default()))
        );
        assert_eq!(tally.interference, None);
        assert_eq!(tally.light_exits.or(tally.kvm_stat_exits), None);
    }
}
