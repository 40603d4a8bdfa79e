//! Tasks that use a CPU in bursts, and sleep between the bursts.

use std::convert::Infallible;
use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use vmnoise_events::Policy;
use vmnoise_workload::thread;

use super::BURST_PRIORITY;

/// Makes bursts and logs each. Unlike `bursts`, this needs no second CPU: the kernel handles the
/// task's own timer outside the logged time.
pub fn turns(cpu: u32, burst: Duration, every: Duration, log: &str) -> Result<Infallible> {
    thread::pin(&[cpu])?;
    thread::set_policy(Policy::Fifo(BURST_PRIORITY))?;
    let mut log = File::create(log).with_context(|| log.to_owned())?;
    loop {
        std::thread::sleep(every);
        let (begin, begin_mono_ns) = (Instant::now(), mono_ns());
        while begin.elapsed() < burst {}
        writeln!(log, "{begin_mono_ns} {}", mono_ns())?;
    }
}

/// Makes bursts of length `burst`. Each begins `phase` after a multiple of `every` on
/// CLOCK_MONOTONIC. So several of these tasks on different CPUs begin at the same time, or a fixed
/// time apart. Writes no log.
pub fn paced(cpu: u32, burst: Duration, every: Duration, phase: Duration) -> Result<Infallible> {
    thread::pin(&[cpu])?;
    thread::set_policy(Policy::Fifo(BURST_PRIORITY))?;
    let [burst_ns, every_ns, phase_ns] = [burst, every, phase].map(|time| time.as_nanos() as u64);
    loop {
        let now_ns = mono_ns();
        let begun = now_ns.saturating_sub(phase_ns) / every_ns;
        let begin_ns = (begun + 1) * every_ns + phase_ns;
        std::thread::sleep(Duration::from_nanos(begin_ns - now_ns));
        while mono_ns() < begin_ns + burst_ns {}
    }
}

/// Makes bursts and sleeps of random length: 0.5 to 1.5 times `burst` and `every`. So nothing is
/// periodic. The sequence is the same in each run. Writes no log.
pub fn irregular(cpu: u32, burst: Duration, every: Duration) -> Result<Infallible> {
    thread::pin(&[cpu])?;
    thread::set_policy(Policy::Fifo(BURST_PRIORITY))?;
    let mut chance = fastrand::Rng::with_seed(1);
    loop {
        std::thread::sleep(every.mul_f64(0.5 + chance.f64()));
        let (begin, burst) = (Instant::now(), burst.mul_f64(0.5 + chance.f64()));
        while begin.elapsed() < burst {}
    }
}

fn mono_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
