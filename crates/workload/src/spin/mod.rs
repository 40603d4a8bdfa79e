//! Polling threads that feel every gap: one on each measured CPU, reading the TSC
//! in user space, on this machine itself.
//!
//! It feels what the microVM feels, and this kernel's own work beside it. Unlike
//! the kernel's osnoise thread it cannot keep interrupts out, and it feels the way
//! back to user space as well.

mod interference;
mod polling;
mod sample;
mod schedule;
mod state;
mod steal;
mod worker;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use vmnoise_events::{Gap, Policy, Tally};

pub use interference::InterferenceCounter;
pub use sample::poll_steps;
pub use steal::{StealReader, StealReading};

use crate::Error;
use crate::cgroup::Cgroup;
use crate::lease::Lease;
use crate::start_barrier::StartBarrier;
use crate::thread;
use worker::{Assignment, Worker};

/// How long dropping the workload waits for a thread that gets no CPU.
const DROP_PATIENCE: Duration = Duration::from_secs(1);

/// What to measure, and how.
pub struct Config {
    /// One thread is pinned to each of these CPUs.
    pub cpus: Vec<u32>,
    /// Gaps of at least this many cycles are recorded.
    pub threshold_tsc: u64,
    /// Policy of the threads; `None` is as inherited.
    pub policy: Option<Policy>,
    /// The threads move here, each by itself; `None` is where their maker runs.
    pub cgroup: Option<Cgroup>,
    /// Length of a period in cycles.
    pub period_tsc: u64,
    /// How much of each period is polled, from the wake-up at its begin; the rest is
    /// slept.
    pub runtime_tsc: u64,
    /// Makes the reader of a CPU's steal clock, for the thread on that CPU. The
    /// thread tries it a few times while it is set up, then reads once before it
    /// polls, once after each pause and once after each gap. A reader that cannot
    /// read in the set-up is as good as none.
    pub steal_reader: Option<Box<dyn Fn(u32) -> StealReader + Send>>,
    /// The live interference counters of CPUs, which the thread on that CPU looks at
    /// with each reading of its clock. A CPU without one feels gaps all the same;
    /// what interfered in them is `None`.
    pub interference_counters: HashMap<u32, InterferenceCounter>,
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("cpus", &self.cpus)
            .field("threshold_tsc", &self.threshold_tsc)
            .field("policy", &self.policy)
            .field("cgroup", &self.cgroup)
            .field("period_tsc", &self.period_tsc)
            .field("runtime_tsc", &self.runtime_tsc)
            .field("steal_reader", &self.steal_reader.is_some())
            .field("interference_counters", &self.interference_counters.len())
            .finish()
    }
}

/// A polling thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpinThread {
    /// The CPU it is pinned to.
    pub cpu: u32,
    /// Its id in the kernel (gettid(2)).
    pub tid: u32,
}

/// Prepared, running or ended polling threads.
///
/// Dropping it ends them. A thread that gets no CPU for a second is left behind; it
/// ends by itself as soon as it runs, and keeps its memory until then.
#[derive(Debug)]
pub struct Spin {
    barrier: Arc<StartBarrier>,
    lease: Arc<Lease>,
    workers: Vec<Worker>,
    threads: Vec<SpinThread>,
}

impl Spin {
    /// Creates one pinned thread per CPU. They then wait for [`Spin::start`].
    ///
    /// The memory that the process has by then is locked (mlockall(2)) where that is
    /// allowed, and stays so.
    ///
    /// # Errors
    /// What was asked that cannot be, with the remedy; no thread is left behind.
    pub fn prepare(config: Config) -> Result<Spin, Error> {
        let Config {
            cpus,
            threshold_tsc,
            policy,
            cgroup,
            period_tsc,
            runtime_tsc,
            steal_reader,
            interference_counters,
        } = config;
        if cpus.is_empty() {
            return Err(thread::Error::NoCpu.into());
        }
        if !(1..=period_tsc).contains(&runtime_tsc) {
            return Err(Error::Runtime {
                runtime_tsc,
                period_tsc,
            });
        }
        let mut spin = Spin {
            barrier: Arc::default(),
            lease: Arc::default(),
            workers: Vec::new(),
            threads: Vec::new(),
        };
        for cpu in cpus {
            // An error drops what there is, and that ends its threads.
            let worker = Worker::spawn(Assignment {
                barrier: Arc::clone(&spin.barrier),
                lease: Arc::clone(&spin.lease),
                cpu,
                policy,
                cgroup: cgroup.clone(),
                threshold_tsc,
                period_tsc,
                runtime_tsc,
                steal_reader: steal_reader.as_ref().map(|make| make(cpu)),
                interference_counter: interference_counters.get(&cpu).cloned(),
            })?;
            spin.threads.push(worker.thread);
            spin.workers.push(worker);
        }
        Ok(spin)
    }

    /// The polling threads, in the order of [`Config::cpus`].
    pub fn threads(&self) -> &[SpinThread] {
        &self.threads
    }

    /// Whether every CPU's steal clock can be read. If not, gaps of the CPUs without
    /// it carry no steal and no reloads, and their tallies say `None`.
    pub fn has_steal_clock(&self) -> bool {
        self.workers
            .iter()
            .all(|worker| worker.state.known.steal_clock)
    }

    /// Whether every CPU has interference counters. If not, gaps and tallies of the
    /// CPUs without them say `None`.
    pub fn counts_interference(&self) -> bool {
        self.workers
            .iter()
            .all(|worker| worker.state.known.interference)
    }

    /// Lets all threads go. Each ends by itself at its first reading at or after
    /// `end_tsc`, asleep or not. Called again, it only moves that.
    ///
    /// # Errors
    /// The failure of a thread that has died already.
    pub fn start(&mut self, end_tsc: Option<u64>) -> Result<(), Error> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        self.lease.end_at(end_tsc.unwrap_or(u64::MAX));
        self.wake();
        self.barrier.open();
        Ok(())
    }

    /// The threads may poll until `until_tsc`; then they sleep until it is moved, which is
    /// blind time. Without this they poll until their end.
    pub fn renew(&mut self, until_tsc: u64) {
        self.lease.renew(until_tsc);
        for worker in &self.workers {
            worker.state.mailbox.set_deadline(self.lease.deadline_tsc());
        }
    }

    /// Hands every recorded gap to `sink`, per CPU in the order of time. Call it 20
    /// times a second or more, on a CPU not measured.
    ///
    /// Gaps of one CPU never overlap; two may touch. Where [`Spin::tallies`] is
    /// called first, every gap up to its `last_tsc` is handed out.
    pub fn drain(&mut self, sink: &mut dyn FnMut(Gap)) {
        for worker in &self.workers {
            worker.drain(sink);
        }
    }

    /// The counters of each CPU since the start; all zero before it. Pauses between
    /// runtimes are part of `blind_tsc`, and what was stolen in them of nothing.
    pub fn tallies(&self) -> Vec<Tally> {
        self.workers.iter().map(Worker::tally).collect()
    }

    /// Gaps lost because a ring was full, on all CPUs since the start.
    pub fn dropped(&self) -> u64 {
        self.workers
            .iter()
            .map(|worker| worker.state.mailbox.count(|counters| &counters.dropped))
            .sum()
    }

    /// How often a thread's clock was behind its last reading, on all CPUs since the
    /// start. Not 0 means that the TSC is not to be trusted.
    pub fn clock_steps_back(&self) -> u64 {
        self.workers
            .iter()
            .map(|worker| worker.state.mailbox.count(|counters| &counters.steps_back))
            .sum()
    }

    /// Whether any thread is still there: from the preparation until the last one
    /// has reached its end.
    pub fn running(&self) -> bool {
        self.workers.iter().any(|worker| worker.life.running())
    }

    /// Why a thread ended early, if one did: its CPU went offline or left the
    /// cpuset, which a thread notices after a gap or at the end of a period. The
    /// others go on, and what was recorded stays.
    pub fn failure(&self) -> Option<Error> {
        self.workers.iter().find_map(|worker| worker.life.failure())
    }

    /// Asks all threads to end now: each does at its next reading.
    pub fn stop(&mut self) {
        self.lease.end_at(0);
        self.wake();
    }

    /// Waits until every thread has reached its end. One that was never started
    /// has; one without a deadline ends at [`Spin::stop`] only. Drain and read the
    /// tallies once more before the workload is dropped.
    ///
    /// # Errors
    /// The failure of a thread that ended early, once all have ended.
    pub fn join(&mut self) -> Result<(), Error> {
        if !self.barrier.is_open() {
            self.barrier.close();
        }
        let workers = self.workers.iter_mut();
        let ends: Vec<_> = workers.map(|worker| worker.life.join()).collect();
        ends.into_iter().collect()
    }

    /// Tells threads of their deadline, asleep or not.
    fn wake(&self) {
        for worker in &self.workers {
            worker.state.set_deadline(self.lease.deadline_tsc());
        }
    }
}

impl Drop for Spin {
    fn drop(&mut self) {
        self.stop();
        self.barrier.close();
        let begin = Instant::now();
        while self.running() && begin.elapsed() < DROP_PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
