//! Loads of many timers that expire at the same time. They cause long interrupts or long softirqs.

use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::{Arc, Barrier};
use std::thread::Builder;
use std::time::Duration;

use anyhow::Result;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use vmnoise_events::Policy;
use vmnoise_workload::thread;

/// Priority above all ordinary tasks, so that the timers are rearmed in time.
const PRIORITY: i32 = 50;
const NS_PER_S: u64 = 1_000_000_000;

/// Lets `count` high-resolution timers expire at the same time, `times` times. They expire in one
/// interrupt, which becomes long. No task waits for them except this one, which waits for the last
/// timer.
pub fn expiries(cpu: u32, count: usize, every: Duration, times: usize) -> Result<()> {
    thread::pin(&[cpu])?;
    thread::set_policy(Policy::Fifo(PRIORITY))?;
    let timer = |_| timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::empty());
    let timers: Vec<OwnedFd> = (0..count).map(timer).collect::<Result<_, _>>()?;
    let now = clock_gettime(ClockId::Monotonic);
    let mut at_ns = now.tv_sec.unsigned_abs() * NS_PER_S + now.tv_nsec.unsigned_abs();
    for _ in 0..times {
        at_ns += u64::try_from(every.as_nanos())?;
        let once = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec {
                tv_sec: (at_ns / NS_PER_S).cast_signed(),
                tv_nsec: (at_ns % NS_PER_S).cast_signed(),
            },
        };
        for timer in &timers {
            timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &once)?;
        }
        // This read waits until the last timer has expired.
        if let Some(last) = timers.last() {
            rustix::io::read(last, &mut [0; 8])?;
        }
    }
    Ok(())
}

/// Wakes all `count` tasks at the same time, again and again. The TIMER softirq handles time-outs
/// in whole ticks, so this causes one long softirq.
pub fn timeouts(cpu: u32, count: usize, every: Duration) -> Result<Infallible> {
    thread::pin(&[cpu])?;
    let together = Arc::new(Barrier::new(count));
    let wait = move |together: &Barrier| -> Result<Infallible> {
        let (silent, _other_end) = UnixDatagram::pair()?;
        silent.set_read_timeout(Some(every))?;
        // From now on, one tick wakes all tasks. They sleep again before the next tick.
        together.wait();
        loop {
            // No data arrives, so the read ends by its time-out.
            let _ = silent.recv(&mut [0]);
        }
    };
    for _ in 1..count {
        let together = Arc::clone(&together);
        Builder::new()
            .stack_size(64 << 10)
            .spawn(move || wait(&together))?;
    }
    wait(&together)
}
