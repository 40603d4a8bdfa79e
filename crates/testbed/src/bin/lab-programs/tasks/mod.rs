//! `lab-tasks CPU MILLISECONDS RECORDING JOBS NAME:PRIORITY:WORK_US:PERIOD_US...` runs periodic
//! tasks on a CPU while `vmnoise osnoise -o RECORDING` polls there.
//!
//! Each task has a thread with this name. The thread runs at SCHED_FIFO with this priority, or at
//! SCHED_DEADLINE if PRIORITY is `deadline`. A job is a fixed amount of work, which takes WORK_US
//! without disturbance. The first jobs of all tasks arrive at the same time. At the end, the
//! program writes the times at which the jobs ended to JOBS as JSON.

mod clock;
mod task;
mod work;

use std::sync::Arc;
use std::thread::{Builder, available_parallelism};

use anyhow::{Context, Result, anyhow, bail};
use rustix::mm::{MlockAllFlags, mlockall};
use vmnoise_testbed::periodic::{PlayedTask, Poller};
use vmnoise_workload::thread;

use self::clock::mono_ns;
use self::task::Task;
use self::work::CpuSpeed;

/// Time in nanoseconds within which all threads must be pinned.
const SETTLED_NS: u64 = 100_000_000;
/// Size of a thread's stack in bytes. The kernel locks the whole stack in memory before the thread
/// runs, which takes time and causes a gap.
const STACK: usize = 128 << 10;

pub fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [cpu, milliseconds, recording, jobs, tasks @ ..] = &arguments[..] else {
        bail!(
            "usage: lab-tasks CPU MILLISECONDS RECORDING JOBS NAME:PRIORITY:WORK_US:PERIOD_US..."
        );
    };
    let (cpu, milliseconds): (u32, u64) = (cpu.parse()?, milliseconds.parse()?);
    let tasks: Vec<Task> = tasks.iter().map(|it| it.parse()).collect::<Result<_>>()?;
    let cpus = u32::try_from(available_parallelism()?.get())?;
    let elsewhere: Vec<u32> = (0..cpus).filter(|other| *other != cpu).collect();
    if !elsewhere.is_empty() {
        thread::pin(&elsewhere)?;
    }
    let work = Arc::new(CpuSpeed::measure(cpu)?);
    // Memory is locked before the poller starts, so that the time for this causes no gap.
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE).context("locking memory")?;
    let poller = Poller::at_work(cpu, recording)?;
    let start_ns = mono_ns() + SETTLED_NS;
    let end_ns = start_ns + milliseconds * 1_000_000;
    let started = tasks.into_iter().map(|task| {
        let work = Arc::clone(&work);
        let builder = Builder::new().stack_size(STACK).name(task.name.clone());
        builder.spawn(move || task.play(cpu, &work, start_ns, end_ns))
    });
    let started = started.collect::<Result<Vec<_>, _>>()?;
    let ended = started.into_iter().map(|thread| {
        let ended = thread.join();
        ended.map_err(|_| anyhow!("a thread of a task panicked"))?
    });
    let played = ended.collect::<Result<Vec<PlayedTask>>>()?;
    poller.still_is()?;
    std::fs::write(jobs, serde_json::to_string(&played)?).with_context(|| jobs.clone())
}
