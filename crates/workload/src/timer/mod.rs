//! Periodic tasks: one on each measured CPU, which sleeps until a given time again and
//! again, and tells how late it was there.

mod state;
mod task;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use vmnoise_events::{Activation, Policy, Tally, TimerSlot};

use crate::Error;
use crate::cgroup::Cgroup;
use crate::kick;
use crate::lease::Lease;
use crate::spin::StealReader;
use crate::start_barrier::StartBarrier;
use crate::{thread, tsc};
use worker::{Assignment, Worker};

/// How long dropping the workload waits for a thread that gets no CPU.
const DROP_PATIENCE: Duration = Duration::from_secs(1);

/// Where BPF tells the task of one CPU the steps of its wake-up.
pub type TimerSteps = Arc<dyn AsRef<TimerSlot> + Send + Sync>;

/// What a task can be told of its CPU.
#[derive(Default)]
pub struct Senses {
    /// The steps of its wake-up.
    pub steps: Option<TimerSteps>,
    /// Its steal clock, which it reads once in each period.
    pub steal_reader: Option<StealReader>,
}

/// What to measure, and how.
pub struct Config {
    /// One task is pinned to each of these CPUs.
    pub cpus: Vec<u32>,
    /// Policy of the tasks; `None` is as inherited.
    pub policy: Option<Policy>,
    /// The tasks move here, each by itself; `None` is where their maker runs.
    pub cgroup: Option<Cgroup>,
    /// From one expiry to the next; not 0.
    pub period_ns: u64,
    /// How far each task's expiries lie behind those of the one before it in `cpus`;
    /// `None` is as it happens.
    pub aligned_ns: Option<u64>,
    /// What the task of a CPU is told.
    pub senses: Box<dyn FnMut(u32) -> Senses>,
}

impl std::fmt::Debug for Senses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Senses")
            .field("steps", &self.steps.is_some())
            .field("steal_reader", &self.steal_reader.is_some())
            .finish()
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("cpus", &self.cpus)
            .field("policy", &self.policy)
            .field("cgroup", &self.cgroup)
            .field("period_ns", &self.period_ns)
            .field("aligned_ns", &self.aligned_ns)
            .finish_non_exhaustive()
    }
}

/// A periodic task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimerThread {
    /// The CPU it is pinned to.
    pub cpu: u32,
    /// Its id in the kernel (gettid(2)).
    pub tid: u32,
}

/// Prepared, running or ended tasks.
///
/// Dropping it ends them. A task that gets no CPU for a second is left behind; it ends by
/// itself as soon as it runs, and keeps its memory until then.
#[derive(Debug)]
pub struct Timer {
    barrier: Arc<StartBarrier>,
    lease: Arc<Lease>,
    origin_ns: Arc<AtomicU64>,
    workers: Vec<Worker>,
}

impl Timer {
    /// Creates one pinned task per CPU. They then wait for [`Timer::start`].
    ///
    /// # Errors
    /// What was asked that cannot be, with the remedy; no task is left behind.
    pub fn prepare(mut config: Config) -> Result<Timer, Error> {
        if config.cpus.is_empty() {
            return Err(thread::Error::NoCpu.into());
        }
        let mut timer = Timer {
            barrier: Arc::default(),
            lease: Arc::default(),
            origin_ns: Arc::default(),
            workers: Vec::new(),
        };
        for (place, &cpu) in config.cpus.iter().enumerate() {
            let Senses {
                steps,
                steal_reader,
            } = (config.senses)(cpu);
            // An error drops what there is, and that ends its threads.
            let worker = Worker::spawn(Assignment {
                barrier: Arc::clone(&timer.barrier),
                lease: Arc::clone(&timer.lease),
                cpu,
                policy: config.policy,
                cgroup: config.cgroup.clone(),
                period_ns: config.period_ns.max(1),
                origin_ns: Arc::clone(&timer.origin_ns),
                behind_ns: config.aligned_ns.map(|ns| ns * place as u64),
                steps,
                steal_reader,
            })?;
            timer.workers.push(worker);
        }
        Ok(timer)
    }

    /// The tasks, in the order of [`Config::cpus`].
    pub fn threads(&self) -> Vec<TimerThread> {
        self.workers.iter().map(|worker| worker.thread).collect()
    }

    /// Lets all tasks go. Each ends by itself at its first wake-up at or after
    /// `end_tsc`.
    ///
    /// # Errors
    /// The failure of a task that has died already.
    pub fn start(&mut self, end_tsc: Option<u64>) -> Result<(), Error> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        self.lease.end_at(end_tsc.unwrap_or(u64::MAX));
        self.origin_ns.store(tsc::mono_ns(), Ordering::Release);
        self.barrier.open();
        Ok(())
    }

    /// The tasks may wake up until `until_tsc`; then they sleep until it is moved, which is
    /// blind time. Without this they go on until their end.
    pub fn renew(&mut self, until_tsc: u64) {
        self.lease.renew(until_tsc);
    }

    /// Hands every activation to `sink`, per CPU in the order of time. Call it 20 times a
    /// second or more, on a CPU not measured.
    pub fn drain(&mut self, sink: &mut dyn FnMut(Activation)) {
        for worker in &self.workers {
            worker.state.drain(worker.thread.cpu, &mut *sink);
        }
    }

    /// From when to when each task was there; zeros before the start.
    pub fn tallies(&self) -> Vec<Tally> {
        let tally = |worker: &Worker| worker.state.tally(worker.thread.cpu);
        self.workers.iter().map(tally).collect()
    }

    /// Activations lost because a ring was full, on all CPUs since the start.
    pub fn dropped(&self) -> u64 {
        let dropped = |worker: &Worker| worker.state.mailbox.count(|counters| &counters.dropped);
        self.workers.iter().map(dropped).sum()
    }

    /// How often a task's clock was behind: CLOCK_MONOTONIC never is.
    pub fn clock_steps_back(&self) -> u64 {
        0
    }

    /// Whether any task is still there.
    pub fn running(&self) -> bool {
        self.workers.iter().any(|worker| worker.life.running())
    }

    /// Why a task ended early, if one did. The others go on.
    pub fn failure(&self) -> Option<Error> {
        self.workers.iter().find_map(|worker| worker.life.failure())
    }

    /// Asks all tasks to end now, asleep or not. A kick just before a sleep is lost: then
    /// the task ends when it wakes up.
    pub fn stop(&mut self) {
        self.lease.end_at(0);
        for worker in &self.workers {
            kick::kick(worker.thread.tid);
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.stop();
        self.barrier.close();
        let begin = Instant::now();
        while self.running() && begin.elapsed() < DROP_PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
