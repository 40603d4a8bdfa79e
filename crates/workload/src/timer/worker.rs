//! One periodic task, from its set-up to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MlockAllFlags, mlockall};
use vmnoise_events::Policy;

use super::state::TimerState;
use super::task::Task;
use super::{TimerSteps, TimerThread};
use crate::Error;
use crate::cgroup::Cgroup;
use crate::lease::Lease;
use crate::measuring_thread::{MeasuringThread, SetUp};
use crate::spin::StealReader;
use crate::start_barrier::StartBarrier;
use crate::thread;

/// A thread at the barrier, at work, or at its end.
#[derive(Debug)]
pub struct Worker {
    pub state: Arc<TimerState>,
    pub thread: TimerThread,
    pub life: MeasuringThread,
}

/// What the thread is given.
pub struct Assignment {
    pub barrier: Arc<StartBarrier>,
    pub lease: Arc<Lease>,
    pub cpu: u32,
    pub policy: Option<Policy>,
    pub cgroup: Option<Cgroup>,
    pub period_ns: u64,
    /// When all tasks begin, and how far behind it this one does.
    pub origin_ns: Arc<AtomicU64>,
    pub behind_ns: Option<u64>,
    pub steps: Option<TimerSteps>,
    pub steal_reader: Option<StealReader>,
}

struct Ready {
    tid: u32,
    state: Arc<TimerState>,
}

impl Worker {
    /// Starts the thread and waits until it stands at the barrier.
    pub fn spawn(assignment: Assignment) -> Result<Worker, Error> {
        let cpu = assignment.cpu;
        let name = format!("vmnoise-timer{cpu}");
        let (life, ready) =
            MeasuringThread::spawn(name, cpu, move |set_up| assignment.carry_out(set_up))?;
        Ok(Worker {
            state: ready.state,
            thread: TimerThread {
                cpu,
                tid: ready.tid,
            },
            life,
        })
    }
}

impl Assignment {
    fn carry_out(self, set_up: &SetUp<Ready>) -> Result<(), Error> {
        // The group may be what allows the CPU, and the CPU what allows the policy.
        if let Some(cgroup) = &self.cgroup {
            cgroup.admit_thread()?;
        }
        thread::pin(&[self.cpu])?;
        if let Some(policy) = self.policy {
            thread::set_policy(policy)?;
        }
        // Made here, so that the memory is this CPU's own where memory has nodes.
        let state = Arc::new(TimerState::new());
        // Refused (RLIMIT_MEMLOCK), the pages are at the kernel's mercy, and what it makes
        // of that is latency.
        let _ = mlockall(MlockAllFlags::CURRENT);
        set_up.is_done(Ready {
            tid: thread::tid(),
            state: Arc::clone(&state),
        })?;
        if !self.barrier.wait() {
            return Ok(());
        }
        let common_ns = self.origin_ns.load(Ordering::Acquire);
        let task = Task {
            cpu: self.cpu,
            state,
            lease: self.lease,
            steps: self.steps,
            steal: self.steal_reader,
            steal_ns: None,
            period_ns: self.period_ns,
            origin_ns: self.behind_ns.map(|behind_ns| common_ns + behind_ns),
        };
        task.run()
    }
}
