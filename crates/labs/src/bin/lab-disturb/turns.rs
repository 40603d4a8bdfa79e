//! A task that takes a CPU for a burst at a time, and knows when.

use std::convert::Infallible;
use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use vmnoise_events::Policy;
use vmnoise_labs::bed::GuestFiles;
use vmnoise_labs::{kvm_stat, schedstat};
use vmnoise_workload::thread;

use super::BURST_PRIORITY;

/// One task is enough where there is no other CPU: what its own timer takes is the kernel's.
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

/// The same in the place of the first vCPU of the lab's guest: before each burst it logs what the
/// scheduler has booked so far for the vCPU's waits, and after it how long the burst was. The last
/// wait is over by then, for it was this vCPU whose CPU it takes.
pub fn waits(cpu: u32, burst: Duration, every: Duration, log: &str) -> Result<Infallible> {
    let vmm: u32 = std::fs::read_to_string(GuestFiles::of(0).vmm)?.parse()?;
    let vcpus = kvm_stat::vcpus(vmm)?;
    let &(_, vcpu) = vcpus.first().context("no vCPU has run")?;
    thread::pin(&[cpu])?;
    thread::set_policy(Policy::Fifo(BURST_PRIORITY))?;
    let mut log = File::create(log).with_context(|| log.to_owned())?;
    loop {
        std::thread::sleep(every);
        let begin = Instant::now();
        let run_delay_ns = schedstat::read(vmm, vcpu)?.run_delay_ns;
        while begin.elapsed() < burst {}
        writeln!(log, "{run_delay_ns} {}", begin.elapsed().as_nanos())?;
    }
}

fn mono_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
