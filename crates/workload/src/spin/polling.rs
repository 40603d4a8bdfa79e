//! The loop of a polling thread. The loop is the microVM's guest program in Rust. So the text about
//! polling, gaps and blind time in `microvm/guest.rs` also applies here, with these differences:
//!
//! - A reading of the steal clock is a system call with BPF. Without BPF, only a reading of the run
//!   delay is a system call. The usual cost of these calls does not count as a gap.
//! - The loop may pause between runtimes. A pause is blind time, like the recording of a gap.
//! - The loop reads the interference counter after each reading of the clock. If the counter has
//!   not changed since the previous reading, there was no interference. Then the reading and the
//!   count belong together. Otherwise the loop reads both again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use vmnoise_events::{Anchor, InterferenceSlot};

use super::faults::PageFaults;
use super::interference::{InterferenceReader, InterferenceReading};
use super::run_delay::RunDelay;
use super::schedule::{Schedule, mono_ns_at};
use super::state::SpinState;
use super::steal::StealClock;
use crate::Error;
use crate::lease::Lease;
use crate::mailbox::{GapCounts, Mailbox, Stolen, add};
use crate::shared_state::SharedState;
use crate::tsc;
use crate::worker::stays_on;

/// Data that one polling thread needs.
pub struct Polling {
    pub cpu: u32,
    pub state: Arc<SpinState>,
    pub steal: StealClock,
    pub run_delay: RunDelay,
    pub faults: PageFaults,
    /// Usual cost of reading the number of page faults, in TSC cycles.
    pub faults_cost_tsc: u64,
    pub interference: InterferenceReader,
    pub period_tsc: u64,
    pub runtime_tsc: u64,
}

/// Number of interferences in a gap, and the cost of counting them.
struct InGap {
    count: u64,
    /// Usual cost of reading the number of page faults, in TSC cycles; 0 if the number was not
    /// read.
    faults_cost_tsc: u64,
}

/// Result of one iteration of the polling loop. Each variant has the iteration's reading of the
/// clock.
pub enum PollStep {
    /// Continue to poll.
    On(u64),
    /// The deadline, or the end of the runtime, has come.
    Due(u64),
    /// The reading needs a closer check. It is so late that other clocks may have advanced, or it
    /// is earlier than the previous reading, or there was an interference.
    Away(u64),
}

/// Runs one iteration of the polling loop. `last` is the previous reading, and `slot` contains the
/// interference counts.
#[inline(always)]
pub fn step(
    mailbox: &Mailbox,
    slot: &InterferenceSlot,
    look_tsc: u64,
    last: InterferenceReading,
    until_tsc: u64,
) -> PollStep {
    let now_tsc = tsc::now();
    let moved = slot.total.load(Ordering::Acquire) != last.interferences;
    if moved || now_tsc.wrapping_sub(last.tsc) >= look_tsc {
        return PollStep::Away(now_tsc);
    }
    mailbox.alive(now_tsc);
    if now_tsc >= until_tsc || now_tsc >= deadline_tsc(mailbox) {
        return PollStep::Due(now_tsc);
    }
    PollStep::On(now_tsc)
}

#[inline(always)]
fn deadline_tsc(mailbox: &Mailbox) -> u64 {
    mailbox.control.deadline_tsc.load(Ordering::Relaxed)
}

impl Polling {
    /// Records gaps until the run ends.
    pub fn run(mut self, lease: &Lease) -> Result<(), Error> {
        let state = Arc::clone(&self.state);
        let mailbox = &*state.mailbox;
        stays_on(self.cpu, "polling thread")?;
        self.discard();
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

    /// Records gaps until `until_tsc` or the deadline. Returns the last reading of the clock.
    fn poll(
        &mut self,
        mut last: InterferenceReading,
        until_tsc: u64,
    ) -> Result<InterferenceReading, Error> {
        let state = Arc::clone(&self.state);
        let mailbox = &*state.mailbox;
        let counter = self.interference.counter();
        let slot = (*counter).as_ref();
        let look_tsc = mailbox.control.look_tsc.load(Ordering::Relaxed);
        loop {
            match step(mailbox, slot, look_tsc, last, until_tsc) {
                PollStep::On(now_tsc) => last.tsc = now_tsc,
                PollStep::Due(now_tsc) => {
                    last.tsc = now_tsc;
                    return Ok(last);
                }
                PollStep::Away(now_tsc) => {
                    last = self.away(last, now_tsc)?;
                    mailbox.alive(last.tsc);
                    if last.tsc >= until_tsc || last.tsc >= deadline_tsc(mailbox) {
                        return Ok(last);
                    }
                }
            }
        }
    }

    /// Records a gap if the time between two readings is long enough. Returns the reading from
    /// which to continue. If the time is too short for a gap, the advance of the other clocks is
    /// discarded, so that the next gap does not include it.
    #[cold]
    #[inline(never)]
    fn away(
        &mut self,
        mut start: InterferenceReading,
        now_tsc: u64,
    ) -> Result<InterferenceReading, Error> {
        // If the thread has moved to another CPU, the gap does not belong to this CPU.
        stays_on(self.cpu, "polling thread")?;
        let mut end = self.settled(start, now_tsc);
        let control = &self.state.mailbox.control;
        let threshold_tsc = control.threshold_tsc.load(Ordering::Relaxed);
        if end.tsc.wrapping_sub(start.tsc) < control.look_tsc.load(Ordering::Relaxed) {
            return Ok(end);
        }
        let blind_limit_tsc = control.blind_limit_tsc.load(Ordering::Relaxed);
        loop {
            if end.tsc.wrapping_sub(start.tsc).cast_signed() < 0 {
                add(&self.state.mailbox.counters.steps_back, 1);
                return Ok(end);
            }
            let is_gap = end.tsc.wrapping_sub(start.tsc) >= threshold_tsc;
            // The limit includes only the cost of those readings that were made. A larger limit
            // would hide interruptions.
            let mut limit_tsc = blind_limit_tsc;
            if is_gap {
                let interference = self.count_interference(start, end);
                limit_tsc += interference.faults_cost_tsc;
                self.record(start, end, interference.count);
            } else {
                self.read_steal();
                self.run_delay.advance_ns();
            }
            let now = self.interference.read(Some(&self.state.interference));
            let writing_tsc = now.tsc.wrapping_sub(end.tsc);
            let ended = now.tsc >= deadline_tsc(&self.state.mailbox);
            if writing_tsc < limit_tsc || ended {
                let blind_tsc = now.tsc.saturating_sub(end.tsc);
                add(&self.state.mailbox.counters.blind_tsc, blind_tsc);
                return Ok(now);
            }
            (start, end) = (end, now);
        }
    }

    /// Returns the reading `now_tsc` with its count, if there was no interference since `start`.
    /// Otherwise returns a later reading.
    fn settled(&mut self, start: InterferenceReading, now_tsc: u64) -> InterferenceReading {
        let counter = self.interference.counter();
        if (*counter).as_ref().total.load(Ordering::Acquire) == start.interferences {
            return InterferenceReading {
                tsc: now_tsc,
                ..start
            };
        }
        self.interference.read(Some(&self.state.interference))
    }

    /// Counts the interferences in a gap. If there are none, the function counts page faults of
    /// this thread instead, so that the gap is not attributed to the hardware.
    ///
    /// A page fault in another gap is counted at the next gap without an interference. The cause of
    /// that gap is then reported as less certain than it is, but never as more certain.
    fn count_interference(
        &mut self,
        start: InterferenceReading,
        end: InterferenceReading,
    ) -> InGap {
        let count = end.interferences.saturating_sub(start.interferences);
        if count > 0 || !self.state.known().interference {
            return InGap {
                count,
                faults_cost_tsc: 0,
            };
        }
        InGap {
            count: self.faults.advance(),
            faults_cost_tsc: self.faults_cost_tsc,
        }
    }

    fn record(&mut self, start: InterferenceReading, end: InterferenceReading, interference: u64) {
        let counts = GapCounts {
            stolen: self.read_steal(),
            interference,
            run_delay_ns: self.run_delay.advance_ns(),
        };
        let span_tsc = (start.tsc, end.tsc);
        self.state
            .mailbox
            .record(&self.state.ring, span_tsc, counts);
    }

    /// Returns the advance of the steal clock since the last reading, and adds it to the steal page
    /// of the mailbox. This page excludes the steal time of pauses.
    fn read_steal(&mut self) -> Stolen {
        let stolen = self.steal.advance();
        let page = &self.state.mailbox.steal;
        add(&page.steal_ns, stolen.steal_ns);
        let version = page.version.load(Ordering::Relaxed);
        let version = version.wrapping_add(stolen.version_moves);
        page.version.store(version, Ordering::Relaxed);
        stolen
    }

    /// Discards the advance of the other clocks, so that no gap includes it.
    fn discard(&mut self) {
        self.steal.advance();
        self.run_delay.advance_ns();
    }

    /// Sleeps until `start_tsc` or the end of the run. Returns the reading from which to poll.
    fn pause(&mut self, start_tsc: u64, lease: &Lease, origin: &Anchor) -> InterferenceReading {
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

    /// Continues to poll. The time since the last reading counts as blind time. Returns the reading
    /// from which to poll.
    fn go_on(&mut self) -> InterferenceReading {
        self.discard();
        let now = self.interference.read(None);
        self.state.mailbox.go_on(now.tsc);
        now
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

    use super::*;
    use crate::mailbox::SharedPage;
    use crate::spin::steal::StealReading;

    /// A threshold that is longer than any gap except the gap that the test makes.
    const THRESHOLD_TSC: u64 = 1 << 34;

    /// Returns a polling thread for the current CPU, and the value of its steal clock.
    fn polling() -> (Polling, Arc<AtomicU64>) {
        let cpu = sched_getcpu();
        let mut here = CpuSet::new();
        here.set(cpu);
        sched_setaffinity(None, &here).unwrap();
        let stolen_ns = Arc::new(AtomicU64::new(0));
        let clock = Arc::clone(&stolen_ns);
        let steal = StealClock::new(Some(Box::new(move || {
            Some(StealReading {
                steal_ns: clock.load(Ordering::Relaxed),
                version: None,
            })
        })));
        let known = SharedPage {
            steal_clock: true,
            ..SharedPage::default()
        };
        let state = SpinState::new(THRESHOLD_TSC, known);
        state.mailbox.set_deadline(u64::MAX);
        let polling = Polling {
            cpu: cpu as u32,
            state: Arc::new(state),
            steal,
            run_delay: RunDelay::unknown(),
            faults: PageFaults::default(),
            faults_cost_tsc: 0,
            interference: InterferenceReader::new(None),
            period_tsc: u64::MAX,
            runtime_tsc: u64::MAX,
        };
        (polling, stolen_ns)
    }

    #[test]
    fn what_is_stolen_in_a_hole_that_is_no_gap_is_of_no_gap() {
        let (mut polling, stolen_ns) = polling();
        let state = Arc::clone(&polling.state);
        let look_tsc = state.mailbox.control.look_tsc.load(Ordering::Relaxed);
        let slot = InterferenceSlot::default();
        let mut lose = |tsc: u64, ns: u64| {
            stolen_ns.fetch_add(ns, Ordering::Relaxed);
            let mut last = polling.interference.read(None);
            last.tsc -= tsc;
            let PollStep::Away(now_tsc) = step(&state.mailbox, &slot, look_tsc, last, u64::MAX)
            else {
                panic!("nobody looked at a hole of {tsc} cycles");
            };
            polling.away(last, now_tsc).unwrap();
        };
        lose(100_000, 30_000);
        lose(2 * THRESHOLD_TSC, 7_000);
        lose(100_000, 500);
        lose(2 * THRESHOLD_TSC, 60);
        let mut steals = Vec::new();
        state.drain(0, &mut |event| {
            if let vmnoise_events::Event::Gap(gap) = event {
                steals.push(gap.steal_ns);
            }
        });
        assert_eq!(steals, [7_000, 60]);
        assert_eq!(state.mailbox.steal.steal_ns.load(Ordering::Relaxed), 37_560);
    }

    #[test]
    fn a_page_fault_of_the_thread_itself_is_an_interference() {
        let (mut polling, _) = polling();
        let known = SharedPage {
            interference: true,
            ..SharedPage::default()
        };
        let state = Arc::new(SpinState::new(THRESHOLD_TSC, known));
        state.mailbox.set_deadline(u64::MAX);
        polling.state = Arc::clone(&state);
        polling.faults.advance();
        let mut interferences = |faults: bool| {
            let mut last = polling.interference.read(None);
            last.tsc -= 2 * THRESHOLD_TSC;
            if faults {
                // Each call maps this amount of memory again and touches its first page.
                let mut fresh = Vec::with_capacity(1 << 26);
                std::hint::black_box(&mut fresh).push(1_u8);
            }
            polling.away(last, tsc::now()).unwrap();
            let mut counted = None;
            state.drain(0, &mut |event| {
                if let vmnoise_events::Event::Gap(gap) = event {
                    counted = gap.interference;
                }
            });
            counted
        };
        // In the first call, the code itself may come from the disk and cause page faults.
        interferences(false);
        assert_eq!(interferences(false), Some(0));
        assert!(interferences(true) > Some(0));
        assert_eq!(interferences(false), Some(0));
    }

    #[test]
    fn without_another_clock_nobody_looks_at_short_holes() {
        let state = SpinState::new(THRESHOLD_TSC, SharedPage::default());
        let look_tsc = state.mailbox.control.look_tsc.load(Ordering::Relaxed);
        assert_eq!(look_tsc, THRESHOLD_TSC);
    }
}
