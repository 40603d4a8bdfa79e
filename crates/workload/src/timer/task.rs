//! The loop of a periodic task: sleep until a time, read the clock, store the activation, compute
//! the next expiry. The loop allocates no memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vmnoise_events::{Activation, TimerSlot};

use super::TimerSteps;
use super::state::TimerState;
use crate::Error;
use crate::lease::Lease;
use crate::spin::ReadSteal;
use crate::tsc;
use crate::worker::stays_on;

const NS_PER_S: u64 = 1_000_000_000;

/// Data that one periodic task needs.
pub struct TimerTask {
    pub cpu: u32,
    pub state: Arc<TimerState>,
    /// Slot in which BPF writes the times of a wake-up; `None` without BPF.
    pub steps: Option<TimerSteps>,
    pub steal: Option<ReadSteal>,
    /// Last reading of the steal clock, in nanoseconds; `None` before the first reading.
    pub steal_ns: Option<u64>,
    pub period_ns: u64,
}

impl TimerTask {
    /// Wakes up once per period until the run ends. The first period begins at `origin_ns`
    /// (CLOCK_MONOTONIC); `None` means now.
    pub fn run(mut self, lease: &Lease, origin_ns: Option<u64>) -> Result<(), Error> {
        let state = Arc::clone(&self.state);
        let mailbox = &state.mailbox;
        let origin_ns = origin_ns.unwrap_or_else(tsc::mono_ns);
        let (mut expiry_ns, _) = self.next_after(origin_ns, tsc::mono_ns());
        let mut missed = 0;
        self.read_steal();
        mailbox.start(tsc::now());
        loop {
            stays_on(self.cpu, "task")?;
            if tsc::now() >= lease.deadline_tsc() {
                if !lease.goes_on() {
                    return Ok(());
                }
                mailbox.go_on(tsc::now());
                (expiry_ns, _) = self.next_after(expiry_ns, tsc::mono_ns());
                missed = 0;
            }
            let Some(woke_ns) = self.sleep_until(expiry_ns, lease) else {
                return Ok(());
            };
            mailbox.alive(tsc::now());
            state.push(&self.activation(expiry_ns, woke_ns, missed));
            (expiry_ns, missed) = self.next_after(expiry_ns, tsc::mono_ns());
        }
    }

    /// Returns the next expiry after `expiry_ns` that is still in the future, and the number of
    /// expiries that have passed before it.
    fn next_after(&self, expiry_ns: u64, now_ns: u64) -> (u64, u32) {
        next_after(expiry_ns, self.period_ns, now_ns)
    }

    /// Sleeps until the expiry. Returns the time of the wake-up, or `None` if the run has ended. A
    /// signal interrupts the sleep when the run ends.
    fn sleep_until(&self, expiry_ns: u64, lease: &Lease) -> Option<u64> {
        if let Some(steps) = &self.steps {
            ask((**steps).as_ref(), expiry_ns, self.steal_ns);
        }
        let until = libc::timespec {
            tv_sec: (expiry_ns / NS_PER_S).cast_signed(),
            tv_nsec: (expiry_ns % NS_PER_S).cast_signed(),
        };
        loop {
            if is_over(lease) {
                return None;
            }
            let (clock, flags) = (libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME);
            // SAFETY: `until` is a valid timespec during the call, and an absolute sleep writes no
            // remainder.
            let result = unsafe {
                libc::clock_nanosleep(clock, flags, &raw const until, std::ptr::null_mut())
            };
            // The clock is read first, because any other work would count as latency.
            let woke_ns = tsc::mono_ns();
            // Either the expiry has come, or a signal interrupted the sleep.
            if result != libc::EINTR {
                return (!is_over(lease)).then_some(woke_ns);
            }
        }
    }

    fn activation(&mut self, expiry_ns: u64, woke_ns: u64, missed: u32) -> Activation {
        let plain = Activation {
            cpu: self.cpu,
            expiry_mono_ns: expiry_ns,
            woke_mono_ns: woke_ns,
            missed,
            ..Activation::default()
        };
        let now_steal_ns = self.read_steal();
        let Some(steps) = &self.steps else {
            return plain;
        };
        let slot = (**steps).as_ref();
        let seen = |time: &AtomicU64| Some(time.load(Ordering::Acquire)).filter(|ns| *ns > 0);
        let reported = Activation {
            armed_mono_ns: seen(&slot.armed_mono_ns),
            irq_mono_ns: seen(&slot.irq_mono_ns),
            waking_mono_ns: seen(&slot.waking_mono_ns),
            switch_mono_ns: seen(&slot.switch_mono_ns),
            ..plain
        };
        Activation {
            steal_ns: stolen_ns(slot, &reported, now_steal_ns),
            ..reported
        }
    }

    /// Reads the steal clock. If the reading fails, `steal_ns` keeps the last reading.
    fn read_steal(&mut self) -> Option<u64> {
        let now_ns = self.steal.as_mut().and_then(|read| Some(read()?.steal_ns));
        self.steal_ns = now_ns.or(self.steal_ns);
        now_ns
    }
}

fn is_over(lease: &Lease) -> bool {
    tsc::now() >= lease.end_tsc()
}

fn next_after(expiry_ns: u64, period_ns: u64, now_ns: u64) -> (u64, u32) {
    let next_ns = expiry_ns.saturating_add(period_ns);
    let over = match now_ns.checked_sub(next_ns) {
        Some(late_ns) => late_ns / period_ns + 1,
        None => 0,
    };
    let next_ns = next_ns.saturating_add(over.saturating_mul(period_ns));
    (next_ns, u32::try_from(over).unwrap_or(u32::MAX))
}

/// Writes the expiry and the last reading of the steal clock to the slot. BPF needs this reading,
/// because this CPU may have no event before the expiry. The expiry is stored last, because BPF may
/// write to the slot from then on.
fn ask(slot: &TimerSlot, expiry_ns: u64, steal_ns: Option<u64>) {
    for word in [
        &slot.armed_mono_ns,
        &slot.irq_mono_ns,
        &slot.waking_mono_ns,
        &slot.switch_mono_ns,
    ] {
        word.store(0, Ordering::Relaxed);
    }
    // If the reading is unknown, no steal time counts in the first interval.
    let steal_ns = steal_ns.unwrap_or(u64::MAX);
    slot.before_steal_ns.store(steal_ns, Ordering::Relaxed);
    slot.expiry_mono_ns.store(expiry_ns, Ordering::Release);
}

/// Returns the steal time in each interval of a wake-up (see [`Activation::steal_ns`]). If no probe
/// saw the end of an interval, its steal time counts in the next interval whose end was seen. The
/// interval until the timer was armed counts only if the expiry had already passed.
fn stolen_ns(slot: &TimerSlot, reported: &Activation, now_steal_ns: Option<u64>) -> [u64; 5] {
    let at = |step: Option<u64>, steal: &AtomicU64| step.map(|_| steal.load(Ordering::Relaxed));
    let is_late = reported.armed_mono_ns > Some(reported.expiry_mono_ns);
    let armed_steal = if is_late {
        &slot.armed_steal_ns
    } else {
        &slot.before_steal_ns
    };
    let marks = [
        at(reported.armed_mono_ns, &slot.before_steal_ns),
        at(reported.armed_mono_ns, armed_steal),
        at(reported.irq_mono_ns, &slot.irq_steal_ns),
        at(reported.waking_mono_ns, &slot.waking_steal_ns),
        at(reported.switch_mono_ns, &slot.switch_steal_ns),
        now_steal_ns,
    ];
    let [mut last_ns, ends @ ..] = marks;
    ends.map(|end_ns| {
        let Some(end_ns) = end_ns else {
            return 0;
        };
        let before_ns = last_ns.replace(end_ns);
        before_ns.map_or(0, |before_ns| end_ns.saturating_sub(before_ns))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_expiry_lies_in_the_future_and_on_the_grid() {
        assert_eq!(next_after(1_000, 100, 1_010), (1_100, 0));
        assert_eq!(next_after(1_000, 100, 1_099), (1_100, 0));
        assert_eq!(next_after(1_000, 100, 1_100), (1_200, 1));
        assert_eq!(next_after(1_000, 100, 1_350), (1_400, 3));
        assert_eq!(next_after(1_000, 100, 0), (1_100, 0));
    }

    #[test]
    fn steal_is_booked_step_by_step() {
        let slot = TimerSlot::default();
        for (word, ns) in [
            (&slot.before_steal_ns, 100),
            (&slot.armed_steal_ns, 90),
            (&slot.irq_steal_ns, 150),
            (&slot.waking_steal_ns, 150),
            (&slot.switch_steal_ns, 157),
        ] {
            word.store(ns, Ordering::Relaxed);
        }
        let reported = Activation {
            expiry_mono_ns: 10,
            armed_mono_ns: Some(4),
            irq_mono_ns: Some(11),
            waking_mono_ns: Some(12),
            switch_mono_ns: Some(13),
            ..Activation::default()
        };
        assert_eq!(stolen_ns(&slot, &reported, Some(160)), [0, 50, 0, 7, 3]);
        assert_eq!(stolen_ns(&slot, &reported, None), [0, 50, 0, 7, 0]);
        let unseen = Activation {
            waking_mono_ns: None,
            ..reported
        };
        assert_eq!(stolen_ns(&slot, &unseen, Some(160)), [0, 50, 0, 7, 3]);
        // The task was awake, so no interrupt woke it.
        let awake = Activation {
            switch_mono_ns: None,
            ..unseen
        };
        assert_eq!(stolen_ns(&slot, &awake, Some(160)), [0, 50, 0, 0, 10]);
    }

    /// The values of the slot are those that the tests of the tracer's handlers produce.
    #[test]
    fn a_timer_armed_late_parts_the_steal_before_it_from_that_after() {
        let slot = TimerSlot::default();
        for (word, ns) in [
            (&slot.before_steal_ns, 30),
            (&slot.armed_steal_ns, 4_030),
            (&slot.irq_steal_ns, 4_130),
        ] {
            word.store(ns, Ordering::Relaxed);
        }
        let late = Activation {
            expiry_mono_ns: 5_000,
            armed_mono_ns: Some(9_000),
            irq_mono_ns: Some(9_200),
            ..Activation::default()
        };
        assert_eq!(stolen_ns(&slot, &late, None), [4_000, 100, 0, 0, 0]);
        let unseen = Activation {
            irq_mono_ns: None,
            ..late
        };
        assert_eq!(stolen_ns(&slot, &unseen, None), [4_000, 0, 0, 0, 0]);
    }

    #[test]
    fn what_is_asked_for_begins_with_the_steal_known_then() {
        let slot = TimerSlot::default();
        slot.before_steal_ns.store(7, Ordering::Relaxed);
        slot.armed_mono_ns.store(8, Ordering::Relaxed);
        ask(&slot, 5_000, Some(30));
        let words = [
            &slot.expiry_mono_ns,
            &slot.armed_mono_ns,
            &slot.before_steal_ns,
        ];
        assert_eq!(
            words.map(|word| word.load(Ordering::Relaxed)),
            [5_000, 0, 30]
        );
    }
}
