//! Polling threads, one on each measured CPU. Each thread reads the TSC in user space of this
//! machine.
//!
//! Polling threads measure the same gaps as the microVM, and also the work of this kernel. Unlike
//! the kernel's osnoise thread, they cannot disable interrupts. So their gaps include the time of
//! the return to user space.

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

/// Settings of the polling threads.
pub struct SpinConfig {
    /// One thread is pinned to each of these CPUs.
    pub cpus: Vec<u32>,
    /// Minimum length of a recorded gap, in TSC cycles.
    pub threshold_tsc: u64,
    /// Policy of the threads; `None` to inherit the policy of this process.
    pub policy: Option<Policy>,
    /// Control group to which each thread moves itself; `None` to stay in the group of the thread
    /// that creates it.
    pub cgroup: Option<Cgroup>,
    /// Duration of a period, in TSC cycles.
    pub period_tsc: u64,
    /// Time of each period in which the thread polls, in TSC cycles, from the wake-up at the begin
    /// of the period. The thread sleeps in the rest of the period.
    pub runtime_tsc: u64,
    /// Readers of the steal clocks, by CPU. The thread on a CPU tries its reader a few times in the
    /// set-up. If this fails, the thread does not use the reader. Later it reads once before it
    /// polls, once after each pause and once after each gap.
    pub steal_readers: HashMap<u32, ReadSteal>,
    /// Live interference counters, by CPU. The thread on a CPU reads them with each reading of its
    /// clock. Gaps of a CPU without counters have no interference counts (`None`).
    pub interference_counters: HashMap<u32, InterferenceCounter>,
    /// Whether the threads read their run delay after each gap. The run delay is needed if BPF does
    /// not report which tasks ran on the CPU.
    pub reads_run_delay: bool,
}

/// Number of readings for an estimate of the usual cost, which is their median.
const COST_READINGS: usize = 9;

impl std::fmt::Debug for SpinConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpinConfig")
            .field("cpus", &self.cpus)
            .finish_non_exhaustive()
    }
}

/// Prepared, running or ended polling threads.
///
/// In their tallies, the pauses between runtimes are part of `blind_tsc`. Steal time during a pause
/// is not counted.
pub type Spin = Workers<SpinState>;

impl Spin {
    /// Creates one pinned thread per CPU. The threads then wait for the start.
    ///
    /// If allowed, the function locks the current memory of the process (mlockall(2)). The memory
    /// stays locked.
    ///
    /// # Errors
    /// If a requested setting is not possible. The error contains the remedy, and all threads have
    /// ended.
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
                // The thread itself creates the state, so that the memory is local on a machine
                // with several NUMA nodes.
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

/// Returns the median cost of `read` on this machine, in TSC cycles.
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
