//! Pinned threads of a workload, one on each measured CPU. They are set up one after another and
//! started together, and their records are drained while they measure.

use std::sync::Arc;
use std::time::{Duration, Instant};

use vmnoise_events::{CpuTally, Event, Policy};

use crate::cgroup::Cgroup;
use crate::mailbox::SharedPage;
use crate::shared_state::SharedState;
use crate::worker::{Placement, RunState, SetUpThread};
use crate::workload::{Failure, MeasuredThread, RunningWorkload};
use crate::{Error, thread};

/// Time for which dropping a workload waits for threads that get no CPU.
const DROP_PATIENCE: Duration = Duration::from_secs(1);

/// Threads of a workload that is prepared, running or ended.
///
/// Dropping this value ends the threads. After a second it no longer waits for a thread that gets
/// no CPU. Such a thread ends by itself when it runs again, and keeps its memory until then.
#[derive(Debug)]
pub struct Workers<S: SharedState> {
    run: Arc<RunState>,
    workers: Vec<SetUpThread<S>>,
}

impl<S: SharedState> Workers<S> {
    /// Creates one thread for each CPU, and waits until all threads are at the barrier. The name of
    /// a thread contains `kind` and the CPU. `set_up_of` gets the index and the CPU of a thread,
    /// and returns the function that sets up the thread (see [`SetUpThread::spawn`]).
    pub(crate) fn set_up<T, W>(
        kind: &str,
        cpus: &[u32],
        policy: Option<Policy>,
        cgroup: Option<Cgroup>,
        mut set_up_of: impl FnMut(usize, u32) -> T,
    ) -> Result<Workers<S>, Error>
    where
        T: FnOnce() -> Result<(Arc<S>, W), Error> + Send + 'static,
        W: FnOnce(&RunState) -> Result<(), Error>,
    {
        if cpus.is_empty() {
            return Err(thread::Error::NoCpu.into());
        }
        let mut workers = Workers {
            run: Arc::default(),
            workers: Vec::new(),
        };
        for (index, &cpu) in cpus.iter().enumerate() {
            let placement = Placement {
                cpu,
                policy,
                cgroup: cgroup.clone(),
            };
            let (name, run) = (format!("vmnoise-{kind}{cpu}"), Arc::clone(&workers.run));
            // In case of an error, the threads so far are dropped, which ends them.
            let worker = SetUpThread::spawn(name, placement, run, set_up_of(index, cpu))?;
            workers.workers.push(worker);
        }
        Ok(workers)
    }

    /// Returns whether the steal clock of every CPU can be read. On a CPU without a steal clock,
    /// gaps have no steal time and no reloads (0), and the tally has `None`.
    pub fn has_steal_clock(&self) -> bool {
        self.all_know(|known| known.steal_clock)
    }

    /// Returns whether every CPU has interference counters. On a CPU without counters, gaps and
    /// tallies have `None`.
    pub fn counts_interference(&self) -> bool {
        self.all_know(|known| known.interference)
    }

    /// Returns whether every thread can read its own run delay.
    pub fn counts_run_delay(&self) -> bool {
        self.all_know(|known| known.run_delay)
    }

    fn all_know(&self, fact: impl Fn(SharedPage) -> bool) -> bool {
        self.shared().all(|shared| fact(shared.known()))
    }

    /// Returns the shared state of each thread, in the order of the CPUs.
    pub(crate) fn shared(&self) -> impl Iterator<Item = &S> {
        self.workers.iter().map(|worker| &*worker.shared)
    }

    /// Waits until every thread has ended. Threads that were never started end at once. Threads
    /// without an end time end only after [`RunningWorkload::stop`]. Afterwards, drain and read the
    /// tallies once more before this value is dropped.
    ///
    /// # Errors
    /// The error of a thread that ended early. It is returned after all threads have ended.
    pub fn join(&mut self) -> Result<(), Error> {
        if !self.run.barrier.is_open() {
            self.run.barrier.close();
        }
        let ends: Vec<_> = self.workers.iter_mut().map(SetUpThread::join).collect();
        ends.into_iter().collect()
    }

    /// Interrupts all threads, even a guest that ignores its deadline. A call just before a thread
    /// enters the guest or falls asleep has no effect. So call this function again until all
    /// threads have ended.
    pub(crate) fn call_away(&self) {
        self.run.barrier.close();
        self.workers.iter().for_each(SetUpThread::kick);
    }

    fn pass_deadline_on(&self) {
        let deadline_tsc = self.run.lease.deadline_tsc();
        self.shared()
            .for_each(|shared| shared.set_deadline(deadline_tsc));
    }
}

impl<S: SharedState> RunningWorkload for Workers<S> {
    /// Returns the threads in the order of the requested CPUs.
    fn threads(&self) -> Vec<MeasuredThread> {
        let thread = |worker: &SetUpThread<S>| MeasuredThread {
            cpu: worker.cpu,
            tid: worker.tid,
        };
        self.workers.iter().map(thread).collect()
    }

    fn start(&mut self, end_tsc: Option<u64>) -> Result<(), Failure> {
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        self.run.lease.end_at(end_tsc.unwrap_or(u64::MAX));
        self.pass_deadline_on();
        self.run.start();
        Ok(())
    }

    fn renew(&mut self, until_tsc: u64) {
        self.run.lease.renew(until_tsc);
        self.pass_deadline_on();
    }

    fn drain(&mut self, sink: &mut dyn FnMut(Event)) {
        for worker in &self.workers {
            worker.shared.drain(worker.cpu, sink);
        }
    }

    fn tallies(&self) -> Vec<CpuTally> {
        let tally = |worker: &SetUpThread<S>| worker.shared.tally(worker.cpu);
        self.workers.iter().map(tally).collect()
    }

    fn dropped(&self) -> u64 {
        self.shared()
            .map(|shared| shared.mailbox().count(|counters| &counters.dropped))
            .sum()
    }

    fn clock_steps_back(&self) -> u64 {
        self.shared()
            .map(|shared| shared.mailbox().count(|counters| &counters.steps_back))
            .sum()
    }

    fn running(&self) -> bool {
        self.workers.iter().any(SetUpThread::running)
    }

    fn failure(&self) -> Option<Failure> {
        let failure = |worker: &SetUpThread<S>| {
            let moved = || worker.shared.check_cpu(worker.tid, worker.cpu).err();
            worker.failure().or_else(moved)
        };
        Some(self.workers.iter().find_map(failure)?.into())
    }

    fn stop(&mut self) {
        self.run.lease.end_at(0);
        self.pass_deadline_on();
        for worker in &self.workers {
            worker.shared.wake(worker.tid);
        }
    }
}

impl<S: SharedState> Drop for Workers<S> {
    fn drop(&mut self) {
        self.stop();
        self.run.barrier.close();
        let begin = Instant::now();
        while self.running() && begin.elapsed() < DROP_PATIENCE {
            self.call_away();
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
