//! One polling thread, from its set-up to its end.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use vmnoise_events::{Gap, Policy, Tally};

use super::SpinThread;
use super::interference::{Interference, InterferenceCounter};
use super::polling::Polling;
use super::state::SpinState;
use super::steal::{StealClock, StealReader};
use crate::Error;
use crate::cgroup::Cgroup;
use crate::lease::Lease;
use crate::mailbox::Known;
use crate::measuring_thread::{MeasuringThread, SetUp};
use crate::start_barrier::StartBarrier;
use crate::thread;

/// A thread at the barrier, polling, or at its end.
#[derive(Debug)]
pub struct Worker {
    pub state: Arc<SpinState>,
    pub thread: SpinThread,
    pub life: MeasuringThread,
}

/// What the thread is given.
pub struct Assignment {
    pub barrier: Arc<StartBarrier>,
    pub lease: Arc<Lease>,
    pub cpu: u32,
    pub policy: Option<Policy>,
    pub cgroup: Option<Cgroup>,
    pub threshold_tsc: u64,
    pub period_tsc: u64,
    pub runtime_tsc: u64,
    pub steal_reader: Option<StealReader>,
    pub interference_counter: Option<InterferenceCounter>,
}

/// What the thread says once it is set up.
struct Ready {
    tid: u32,
    state: Arc<SpinState>,
}

impl Worker {
    /// Starts the thread and waits until it stands at the barrier.
    pub fn spawn(assignment: Assignment) -> Result<Worker, Error> {
        let cpu = assignment.cpu;
        let name = format!("vmnoise-spin{cpu}");
        let (life, ready) =
            MeasuringThread::spawn(name, cpu, move |set_up| assignment.carry_out(set_up))?;
        Ok(Worker {
            state: ready.state,
            thread: SpinThread {
                cpu,
                tid: ready.tid,
            },
            life,
        })
    }

    pub fn drain(&self, sink: &mut dyn FnMut(Gap)) {
        self.state.drain(self.thread.cpu, sink);
    }

    pub fn tally(&self) -> Tally {
        self.state.tally(self.thread.cpu)
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
        let mut steal = StealClock::new(self.steal_reader);
        let known = Known {
            steal_clock: steal.works(),
            reloads: steal.counts_reloads(),
            interference: self.interference_counter.is_some(),
        };
        // Made here, so that the memory is this CPU's own where memory has nodes.
        let state = Arc::new(SpinState::new(self.threshold_tsc, known));
        state.lock_in_memory();
        let limit = &state.mailbox.control.blind_limit_tsc;
        limit.fetch_add(steal.usual_cost_tsc(), Ordering::Relaxed);
        set_up.is_done(Ready {
            tid: thread::tid(),
            state: Arc::clone(&state),
        })?;
        if !self.barrier.wait() {
            return Ok(());
        }
        let polling = Polling {
            cpu: self.cpu,
            state,
            lease: self.lease,
            steal,
            interference: Interference::new(self.interference_counter),
            period_tsc: self.period_tsc,
            runtime_tsc: self.runtime_tsc,
        };
        polling.run()
    }
}
