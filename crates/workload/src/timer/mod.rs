//! Periodic tasks: one on each measured CPU. Each sleeps until a given time, again and again, and
//! records when it woke up.

mod state;
mod task;

use std::num::NonZeroU64;
use std::sync::Arc;

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::thread::set_current_timer_slack;
use vmnoise_events::{Policy, TimerSlot};

use crate::Error;
use crate::cgroup::Cgroup;
use crate::spin::ReadSteal;
use crate::worker::RunState;
use crate::workers::Workers;
use state::TimerState;
use task::TimerTask;

/// The least slack. 0 would mean the kernel's default.
const NO_SLACK_NS: NonZeroU64 = NonZeroU64::MIN;

/// The slot in which BPF writes the steps of a wake-up, for the task of one CPU.
pub type TimerSteps = Arc<dyn AsRef<TimerSlot> + Send + Sync>;

/// Sources that a task can read on its CPU.
#[derive(Default)]
pub struct Probes {
    /// The steps of its wake-up.
    pub steps: Option<TimerSteps>,
    /// Its steal clock, which it reads once in each period.
    pub steal_reader: Option<ReadSteal>,
}

/// Settings of the measurement.
pub struct TimerConfig {
    /// One task is pinned to each of these CPUs.
    pub cpus: Vec<u32>,
    /// Policy of the tasks; `None`: as inherited.
    pub policy: Option<Policy>,
    /// Group to which each task moves itself; `None`: the group of the thread that creates them.
    pub cgroup: Option<Cgroup>,
    /// Time from one expiry to the next; not 0.
    pub period_ns: u64,
    /// How far each task's expiries are behind those of the task before it in `cpus`; `None`: not
    /// aligned.
    pub aligned_ns: Option<u64>,
    /// Sources that the tasks can read, in the order of `cpus`. A task without an entry reads
    /// nothing.
    pub probes: Vec<Probes>,
}

impl std::fmt::Debug for Probes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probes").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for TimerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("cpus", &self.cpus)
            .finish_non_exhaustive()
    }
}

/// Prepared, running or ended tasks.
pub type Timer = Workers<TimerState>;

impl Timer {
    /// Creates one pinned task per CPU. They then wait for the start.
    ///
    /// # Errors
    /// What was requested and is not possible, with the remedy. No task is left behind.
    pub fn prepare(config: TimerConfig) -> Result<Timer, Error> {
        let TimerConfig {
            cpus,
            policy,
            cgroup,
            period_ns,
            aligned_ns,
            probes,
        } = config;
        let mut probes = probes.into_iter();
        Workers::set_up("timer", &cpus, policy, cgroup, |index, cpu| {
            let Probes {
                steps,
                steal_reader,
            } = probes.next().unwrap_or_default();
            move || {
                // Created on the thread, so that it is local memory on a machine with several
                // nodes.
                let state = Arc::new(TimerState::new());
                // If it is refused (RLIMIT_MEMLOCK), the kernel may take pages away, and the task
                // records this as latency.
                let _ = mlockall(MlockAllFlags::CURRENT);
                // Otherwise the timers of ordinary tasks may expire up to 50 us late. The kernel
                // cannot refuse this.
                let _ = set_current_timer_slack(Some(NO_SLACK_NS));
                let task = TimerTask {
                    cpu,
                    state: Arc::clone(&state),
                    steps,
                    steal: steal_reader,
                    steal_ns: None,
                    period_ns: period_ns.max(1),
                };
                let work = move |run: &RunState| {
                    let behind_ns = aligned_ns.map(|ns| ns * index as u64);
                    let origin_ns = behind_ns.map(|ns| run.started_mono_ns() + ns);
                    task.run(&run.lease, origin_ns)
                };
                Ok((state, work))
            }
        })
    }
}
