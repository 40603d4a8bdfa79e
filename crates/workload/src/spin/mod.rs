//! Polling threads: one on each measured CPU. Each reads the TSC in user space, on this machine
//! itself.
//!
//! They measure the same as the microVM, and also this kernel's own work. Unlike the kernel's
//! osnoise thread they cannot disable interrupts. The way back to user space is part of their gaps.

mod faults;
mod interference;
mod polling;
mod rate;
mod run_delay;
mod sample;
mod schedule;
mod state;
mod steal;

use std::collections::HashMap;
use std::sync::Arc;

use vmnoise_events::Policy;

pub use interference::InterferenceCounter;
pub use rate::{RateConfig, RateWindow, rate};
pub use sample::poll_steps;
pub use steal::{ReadSteal, StealReading};

use crate::Error;
use crate::cgroup::Cgroup;
use crate::mailbox::SharedPage;
use crate::tsc;
use crate::worker::RunState;
use crate::workers::Workers;
use faults::PageFaults;
use interference::InterferenceReader;
use polling::Polling;
use run_delay::RunDelay;
use state::SpinState;
use steal::StealClock;

/// Settings of the measurement.
pub struct SpinConfig {
    /// One thread is pinned to each of these CPUs.
    pub cpus: Vec<u32>,
    /// Gaps of at least this many cycles are recorded.
    pub threshold_tsc: u64,
    /// Policy of the threads; `None`: as inherited.
    pub policy: Option<Policy>,
    /// Group to which each thread moves itself; `None`: the group of the thread that creates them.
    pub cgroup: Option<Cgroup>,
    /// Length of a period in cycles.
    pub period_tsc: u64,
    /// Time of each period that is polled, from the wake-up at its begin. The thread sleeps in the
    /// rest.
    pub runtime_tsc: u64,
    /// Readers of the steal clocks of CPUs, for the thread on that CPU. The thread tries its reader
    /// a few times in the set-up. Later it reads once before it polls, once after each pause and
    /// once after each gap. A reader that fails in the set-up is not used.
    pub steal_readers: HashMap<u32, ReadSteal>,
    /// The live interference counters of CPUs. The thread on that CPU reads them with each reading
    /// of its clock. Gaps of a CPU without counters have `None`.
    pub interference_counters: HashMap<u32, InterferenceCounter>,
    /// Whether the threads read after each gap how long they waited for their CPU. It is needed if
    /// BPF does not report who had the CPU.
    pub reads_run_delay: bool,
}

/// Number of readings whose median is the usual cost.
const COST_READINGS: usize = 9;

impl std::fmt::Debug for SpinConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("cpus", &self.cpus)
            .finish_non_exhaustive()
    }
}

/// Prepared, running or ended polling threads.
///
/// In their tallies the pauses between runtimes are part of `blind_tsc`. Steal time in a pause
/// counts nowhere.
pub type Spin = Workers<SpinState>;

impl Spin {
    /// Creates one pinned thread per CPU. They then wait for the start.
    ///
    /// The current memory of the process is locked (mlockall(2)) if that is allowed, and stays
    /// locked.
    ///
    /// # Errors
    /// What was requested and is not possible, with the remedy. No thread is left behind.
    pub fn prepare(config: SpinConfig) -> Result<Spin, Error> {
        let SpinConfig {
            cpus,
            threshold_tsc,
            policy,
            cgroup,
            period_tsc,
            runtime_tsc,
            mut steal_readers,
            interference_counters,
            reads_run_delay,
        } = config;
        if !(1..=period_tsc).contains(&runtime_tsc) {
            return Err(Error::Runtime {
                runtime_tsc,
                period_tsc,
            });
        }
        faults::keep_pages();
        Workers::set_up("spin", &cpus, policy, cgroup, |_, cpu| {
            let steal_reader = steal_readers.remove(&cpu);
            let counter = interference_counters.get(&cpu).cloned();
            move || {
                let mut steal = StealClock::new(steal_reader);
                let mut run_delay = match reads_run_delay {
                    true => RunDelay::of_this_thread(),
                    false => RunDelay::unknown(),
                };
                let mut faults = PageFaults::default();
                let known = SharedPage {
                    steal_clock: steal.works(),
                    reloads: steal.counts_reloads(),
                    interference: counter.is_some(),
                    run_delay: run_delay.works(),
                };
                // Created on the thread, so that it is local memory on a machine with several
                // nodes.
                let state = Arc::new(SpinState::new(threshold_tsc, known));
                state.lock_in_memory();
                state.allow_blind_tsc(usual_cost_tsc(|| {
                    steal.advance();
                    run_delay.advance_ns();
                }));
                let faults_cost_tsc = usual_cost_tsc(|| {
                    faults.advance();
                });
                let polling = Polling {
                    cpu,
                    state: Arc::clone(&state),
                    steal,
                    run_delay,
                    faults,
                    faults_cost_tsc,
                    interference: InterferenceReader::new(counter),
                    period_tsc,
                    runtime_tsc,
                };
                Ok((state, move |run: &RunState| polling.run(&run.lease)))
            }
        })
    }
}

/// Returns the median cost of a reading on this machine, in cycles.
fn usual_cost_tsc(mut read: impl FnMut()) -> u64 {
    let mut costs = [0; COST_READINGS];
    for cost in &mut costs {
        let before_tsc = tsc::now();
        read();
        *cost = tsc::now().saturating_sub(before_tsc);
    }
    costs.sort_unstable();
    costs[COST_READINGS / 2]
}
