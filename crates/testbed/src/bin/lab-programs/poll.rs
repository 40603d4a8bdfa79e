//! `lab-poll CPU THRESHOLD_CYCLES POLL_MS WAIT_MS [FILE=WORDS]...` writes WORDS into each FILE,
//! such as the switches of a kernel tracer, and waits for WAIT_MS. Then it reads the TSC at
//! SCHED_FIFO again and again for POLL_MS. It prints all gaps of at least the threshold as JSON.
//!
//! `lab-poll` is the plain loop of sysjitter, and contains no poller of `vmnoise`. So it is the
//! reference for the gaps of these pollers, and observes the noise of all tracers in the same way.
//! A task of ordinary priority waits for the CPU all the time. So the work of the tick is the same,
//! whether or not a tracer's poller also waits there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::mm::{MlockAllFlags, mlockall};
use vmnoise_events::Policy;
use vmnoise_testbed::polled::{PolledGap, PolledRun};
use vmnoise_workload::{thread, tsc};

/// Priority above all ordinary tasks, which include the pollers of tracers. It is below
/// PREEMPT_RT's own real-time threads, whose priorities begin at 50.
const PRIORITY: i32 = 49;
/// Maximum number of gaps: one gap per 10 us for a second.
const MOST_GAPS: usize = 100_000;

pub fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [cpu, threshold, poll_ms, wait_ms, switches @ ..] = &arguments[..] else {
        bail!("usage: lab-poll CPU THRESHOLD_CYCLES POLL_MS WAIT_MS [FILE=WORDS]...");
    };
    let (threshold_tsc, poll_ms) = (threshold.parse()?, poll_ms.parse::<u64>()?);
    for switch in switches {
        let (file, words) = switch.split_once('=').context(switch.clone())?;
        std::fs::write(file, words).with_context(|| format!("{words} into {file}"))?;
    }
    std::thread::sleep(Duration::from_millis(wait_ms.parse()?));
    thread::pin(&[cpu.parse()?])?;
    let tsc_hz = tsc::calibrate_hz(Duration::from_millis(50));
    let mut gaps = vec![PolledGap::default(); MOST_GAPS];
    mlockall(MlockAllFlags::CURRENT).context("locking the gaps in memory")?;
    let poll_tsc = tsc_hz / 1000 * poll_ms;
    let over = AtomicBool::new(false);
    let (found, begin_tsc, end_tsc) = std::thread::scope(|scope| -> Result<_> {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let polled = thread::set_policy(Policy::Fifo(PRIORITY))
            .map(|()| poll(threshold_tsc, poll_tsc, &mut gaps));
        over.store(true, Ordering::Relaxed);
        Ok(polled?)
    })?;
    gaps.truncate(found);
    let polled = PolledRun {
        tsc_hz,
        begin_tsc,
        end_tsc,
        gaps,
    };
    println!("{}", serde_json::to_string(&polled)?);
    Ok(())
}

/// Polls until the time is over or `gaps` is full. Returns the number of gaps, the first reading of
/// the TSC, and the last reading.
fn poll(threshold_tsc: u64, poll_tsc: u64, gaps: &mut [PolledGap]) -> (usize, u64, u64) {
    let begin_tsc = tsc::now();
    let mut last_tsc = begin_tsc;
    let mut found = 0;
    while last_tsc - begin_tsc < poll_tsc && found < gaps.len() {
        let now_tsc = tsc::now();
        if now_tsc - last_tsc >= threshold_tsc {
            gaps[found] = PolledGap {
                start_tsc: last_tsc,
                end_tsc: now_tsc,
            };
            found += 1;
        }
        last_tsc = now_tsc;
    }
    (found, begin_tsc, last_tsc)
}
