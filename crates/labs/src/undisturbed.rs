//! Measures how long a CPU ran nothing but one thread: an upper bound for other work that is
//! independent of `vmnoise`.

use std::thread::Builder;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use vmnoise_events::Policy;
use vmnoise_workload::{thread, tsc};

/// Priority above all ordinary tasks, and below PREEMPT_RT's own real-time threads.
const PRIORITY: i32 = 49;
/// Longest step of the loop that counts as undisturbed. An interrupt takes longer: the way into the
/// kernel and back alone does.
const STEP: Duration = Duration::from_micros(1);
/// Time for which the TSC is compared with the clock.
const CALIBRATED: Duration = Duration::from_millis(50);

/// Polls on this CPU for this long at SCHED_FIFO, and returns the sum of the undisturbed steps.
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
            // Many steps per read of the clock, which is slow where it is emulated.
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
