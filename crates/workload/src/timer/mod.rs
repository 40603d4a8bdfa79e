//! Periodic tasks, one on each measured CPU. Each task repeatedly sleeps until a given time, and
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

/// Smallest possible timer slack. 0 would select the kernel's default.
const NO_SLACK_NS: NonZeroU64 = NonZeroU64::MIN;

/// Slot of one CPU in which BPF writes the times of the current wake-up.
pub type TimerSteps = Arc<dyn AsRef<TimerSlot> + Send + Sync>;

/// Sources that a task can read on its CPU, in addition to the clock.
#[derive(Default)]
pub struct Probes {
    /// Slot with the times of the task's wake-up; `None` without BPF.
    pub steps: Option<TimerSteps>,
    /// Reader of the CPU's steal clock. The task reads this clock once in each period.
    pub steal_reader: Option<ReadSteal>,
}

/// Settings of the periodic tasks.
pub struct TimerConfig {
    /// One task is pinned to each of these CPUs.
    pub cpus: Vec<u32>,
    /// Policy of the tasks; `None` to inherit the policy of this process.
    pub policy: Option<Policy>,
    /// Control group to which each task moves itself; `None` to stay in the group of the thread
    /// that creates it.
    pub cgroup: Option<Cgroup>,
    /// Time from one expiry to the next, in nanoseconds; not 0.
    pub period_ns: u64,
    /// Delay of each task's expiries after the expiries of the previous task in `cpus`, in
    /// nanoseconds; `None` if the tasks are not aligned.
    pub aligned_ns: Option<u64>,
    /// Sources that the tasks can read, in the order of `cpus`. A task without an entry reads no
    /// source.
    pub probes: Vec<Probes>,
}

impl std::fmt::Debug for Probes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probes").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for TimerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TimerConfig")
            .field("cpus", &self.cpus)
            .finish_non_exhaustive()
    }
}

/// Prepared, running or ended periodic tasks.
pub type Timer = Workers<TimerState>;

impl Timer {
    /// Creates one pinned task per CPU. The tasks then wait for the start.
    ///
    /// # Errors
    /// If a requested setting is not possible. The error contains the remedy, and all tasks have
    /// ended.
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
                // The thread itself creates the state, so that the memory is local on a machine
                // with several NUMA nodes.
                let state = Arc::new(TimerState::new());
                // If the kernel refuses (RLIMIT_MEMLOCK), it may take pages away. The task then
                // records the page faults as latency.
                let _ = mlockall(MlockAllFlags::CURRENT);
                // With the default slack, timers of ordinary tasks may expire up to 50 us late. The
                // kernel cannot refuse this setting.
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
