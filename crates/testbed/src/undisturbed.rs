//! Measures for how long a CPU ran only one thread. This time limits how much other work the CPU
//! can have done, independently of `vmnoise`.

use std::thread::Builder;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use vmnoise_events::Policy;
use vmnoise_workload::{thread, tsc};

/// Priority above all ordinary tasks, and below PREEMPT_RT's own real-time threads.
const PRIORITY: i32 = 49;
/// Longest time between two readings of the TSC that counts as undisturbed. An interrupt takes
/// longer: entering and leaving the kernel alone takes longer.
const STEP: Duration = Duration::from_micros(1);
/// Time over which the frequency of the TSC is measured.
const CALIBRATED: Duration = Duration::from_millis(50);

/// Polls the TSC on this CPU for `time` at SCHED_FIFO. Returns the sum of the times between two
/// readings that count as undisturbed.
///
/// # Errors
/// If the thread cannot be started, pinned, or given its priority.
pub fn undisturbed(cpu: u32, time: Duration) -> Result<Duration> {
    let tsc_hz = tsc::calibrate_hz(CALIBRATED);
    let step_tsc = (tsc_hz as f64 * STEP.as_secs_f64()) as u64;
    let poll = move || -> Result<Duration> {
        thread::pin(&[cpu])?;
        thread::set_policy(Policy::Fifo(PRIORITY))?;
        let (begin, mut before_tsc, mut quiet_tsc) = (Instant::now(), tsc::now(), 0);
        while begin.elapsed() < time {
            // Many readings of the TSC follow each reading of the clock, which is slow if the clock
            // is emulated.
            for _ in 0..100 {
                let now_tsc = tsc::now();
                let taken_tsc = now_tsc.saturating_sub(before_tsc);
                if taken_tsc < step_tsc {
                    quiet_tsc += taken_tsc;
                }
                before_tsc = now_tsc;
            }
        }
        Ok(Duration::from_secs_f64(quiet_tsc as f64 / tsc_hz as f64))
    };
    let poller = Builder::new().name("lab-undisturbed".into()).spawn(poll);
    let polled = poller.context("a thread that polls")?.join();
    polled.map_err(|_| anyhow!("the thread that polls panicked"))?
}
