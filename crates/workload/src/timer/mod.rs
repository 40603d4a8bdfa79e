//! Periodic tasks: one on each measured CPU, which sleeps until a given time again and
//! again, and records when it woke up.

mod state;
mod task;

use std::num::NonZeroU64;
use std::sync::Arc;

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::thread::set_current_timer_slack;
use vmnoise_events::{Policy, TimerSlot};

use crate::Error;
use crate::cgroup::Cgroup;
use crate::spin::StealReader;
use crate::worker::RunState;
use crate::workers::Workers;
use state::TimerState;
use task::Task;

/// The least there is: 0 is what the kernel gives by itself.
const NO_SLACK_NS: NonZeroU64 = NonZeroU64::MIN;

/// Where BPF writes the steps of a wake-up, for the task of one CPU.
pub type TimerSteps = Arc<dyn AsRef<TimerSlot> + Send + Sync>;

/// What a task can read of its CPU.
#[derive(Default)]
pub struct Probes {
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
    /// What the tasks can read, in the order of `cpus`; a task that is missing reads nothing.
    pub probes: Vec<Probes>,
}

impl std::fmt::Debug for Probes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probes").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Config {
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
    /// What was asked that cannot be, with the remedy; no task is left behind.
    pub fn prepare(config: Config) -> Result<Timer, Error> {
        let Config {
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
                // Made on the thread, so that the memory is its CPU's own where memory has nodes.
                let state = Arc::new(TimerState::new());
                // Where it is refused (RLIMIT_MEMLOCK), the kernel may take pages away, and
                // the task records that as latency.
                let _ = mlockall(MlockAllFlags::CURRENT);
                // The kernel lets the timers of ordinary tasks expire up to 50 us late otherwise. It cannot refuse.
                let _ = set_current_timer_slack(Some(NO_SLACK_NS));
                let task = Task {
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
