//! Measures the speed of a CPU, and does a fixed amount of work.

use std::hint::black_box;
use std::thread::{Builder, sleep};
use std::time::Duration;

use anyhow::{Result, anyhow};
use vmnoise_events::Policy;
use vmnoise_workload::thread;

use super::clock::mono_ns;

const MEASURING: &str = "lab-measures";
/// Priority above all periodic tasks, so that the measurement does not contain the time of other
/// tasks.
const PRIORITY: i32 = 49;
/// Number of loop iterations per measurement. They take tens of microseconds, which fit between two
/// disturbances.
const MEASURED: u64 = 5_000;
/// Number of measurements. The fastest of them was not disturbed.
const TIMES: u64 = 50;

const BETWEEN: Duration = Duration::from_millis(1);

/// Speed of a CPU in loop iterations per millisecond.
pub struct CpuSpeed {
    steps_per_ms: u64,
}

impl CpuSpeed {
    pub fn measure(cpu: u32) -> Result<CpuSpeed> {
        let builder = Builder::new().name(MEASURING.into());
        let measured = builder.spawn(move || -> Result<u64> {
            thread::set_policy(Policy::Fifo(PRIORITY))?;
            thread::pin(&[cpu])?;
            let lengths_ns = (0..TIMES).map(|_| {
                // Other tasks can run during this sleep. Otherwise, all measurements together would
                // be one long gap for these tasks.
                sleep(BETWEEN);
                let begin_ns = mono_ns();
                run(MEASURED);
                mono_ns() - begin_ns
            });
            Ok(lengths_ns.min().unwrap_or(1).max(1))
        })?;
        let measured = measured.join();
        let shortest_ns = measured.map_err(|_| anyhow!("the measuring thread panicked"))??;
        let steps_per_ms = MEASURED * 1_000_000 / shortest_ns;
        Ok(CpuSpeed { steps_per_ms })
    }

    /// Does work that takes `us` microseconds without disturbance.
    pub fn take(&self, us: u64) {
        run(self.steps_per_ms * us / 1_000);
    }
}

fn run(steps: u64) {
    for step in 0..steps {
        black_box(step);
    }
}
