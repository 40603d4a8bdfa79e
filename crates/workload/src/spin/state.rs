//! Memory that one polling thread shares with the draining thread.

use std::ffi::c_void;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MlockAllFlags, mlock, mlockall};
use rustix::thread::futex;
use rustix::time::Timespec;
use vmnoise_events::{CpuTally, Event, InterferenceSlot};

use crate::mailbox::{GapRecord, Mailbox, RING_BYTES, RING_RECORDS, SharedPage, add};
use crate::shared_state::SharedState;

const NS_PER_S: u64 = 1_000_000_000;

/// A mailbox, its ring, and an alarm that wakes a pausing thread.
#[derive(Debug)]
pub struct SpinState {
    pub mailbox: Box<Mailbox>,
    pub ring: Box<[GapRecord]>,
    known: SharedPage,
    /// Number of interferences that the thread itself counted while it polled.
    pub interference: InterferenceSlot,
    /// Futex that changes when the thread must check its deadline.
    alarm: AtomicU32,
}

impl SpinState {
    /// Creates the state. The function writes every page, so that later accesses cause no page
    /// fault.
    pub fn new(threshold_tsc: u64, known: SharedPage) -> SpinState {
        let state = SpinState {
            mailbox: Box::default(),
            ring: (0..RING_RECORDS).map(|_| GapRecord::default()).collect(),
            known,
            interference: InterferenceSlot::default(),
            alarm: AtomicU32::new(0),
        };
        state.mailbox.set_threshold(threshold_tsc);
        if !known.steal_clock && !known.run_delay {
            state.mailbox.overlook_short_holes();
        }
        state
    }

    /// Locks this memory if allowed, together with all current memory of the process, including its
    /// code. If the kernel refuses (RLIMIT_MEMLOCK), it may take pages away. The thread then
    /// records the page faults as gaps.
    pub fn lock_in_memory(&self) {
        if mlockall(MlockAllFlags::CURRENT).is_ok() {
            return;
        }
        let ring = self.ring.as_ptr().cast::<c_void>().cast_mut();
        let mailbox = (&raw const *self.mailbox).cast::<c_void>().cast_mut();
        // SAFETY: this value owns both ranges. Locking changes no content.
        let _ = unsafe {
            (
                mlock(ring, RING_BYTES),
                mlock(mailbox, size_of::<Mailbox>()),
            )
        };
    }

    /// Increases the time for recording a gap, above which the recording counts as interrupted.
    pub fn allow_blind_tsc(&self, more_tsc: u64) {
        add(&self.mailbox.control.blind_limit_tsc, more_tsc);
    }

    /// Returns the value of the alarm. Check the deadline after this call, never before it.
    pub fn alarm(&self) -> u32 {
        self.alarm.load(Ordering::Acquire)
    }

    /// Sleeps until this time of CLOCK_MONOTONIC, until the value of the alarm differs from `seen`,
    /// or until a signal arrives.
    pub fn sleep(&self, until_mono_ns: u64, seen: u32) {
        let until = Timespec {
            tv_sec: (until_mono_ns / NS_PER_S).cast_signed(),
            tv_nsec: (until_mono_ns % NS_PER_S).cast_signed(),
        };
        // FUTEX_WAIT_BITSET takes an absolute time. A wake-up between the check of the deadline and
        // the sleep is not lost. The caller reads the clock after the sleep, so the reason of the
        // return does not matter.
        let flags = futex::Flags::PRIVATE;
        let _ = futex::wait_bitset(&self.alarm, flags, seen, Some(&until), NonZeroU32::MAX);
    }
}

impl SharedState for SpinState {
    fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    fn known(&self) -> SharedPage {
        self.known
    }

    fn drain(&self, cpu: u32, sink: &mut dyn FnMut(Event)) {
        let gap = |record: &GapRecord| sink(Event::Gap(record.gap(cpu, self.known)));
        self.mailbox.drain(&self.ring, gap);
    }

    fn tally(&self, cpu: u32) -> CpuTally {
        let counts = self.known.interference.then(|| self.interference.counts());
        CpuTally {
            interference: counts,
            ..self.mailbox.tally(cpu, self.known)
        }
    }

    fn wake(&self, _tid: u32) {
        self.alarm.fetch_add(1, Ordering::Release);
        // The call cannot fail for a futex in mapped memory.
        let _ = futex::wake(&self.alarm, futex::Flags::PRIVATE, 1);
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
        let state = SpinState::new(1_000, SharedPage::default());
        let begin = Instant::now();
        let until_mono_ns = tsc::anchor().mono_ns + 20_000_000;
        while tsc::anchor().mono_ns < until_mono_ns {
            state.sleep(until_mono_ns, state.alarm());
        }
        assert!(begin.elapsed() >= Duration::from_millis(20));

        let seen = state.alarm();
        state.wake(0);
        state.sleep(until_mono_ns + 60 * NS_PER_S, seen);
        let seen = state.alarm();
        std::thread::scope(|scope| {
            scope.spawn(|| state.sleep(until_mono_ns + 60 * NS_PER_S, seen));
            std::thread::sleep(Duration::from_millis(20));
            state.wake(0);
        });
        assert!(begin.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_tally_knows_what_there_is_to_know() {
        let tally = |steal_clock, interference| {
            let known = SharedPage {
                steal_clock,
                reloads: steal_clock,
                interference,
                run_delay: false,
            };
            SpinState::new(1_000, known).tally(3)
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
