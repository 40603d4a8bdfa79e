//! `lab-disturb busy CPU` never sleeps; `lab-disturb bursts CPU HZ BURST_US COUNT LOG`
//! burns COUNT bursts at SCHED_FIFO and logs the TSC at each begin and end, and what
//! the scheduler has charged the thread since the end before: that includes the way
//! on and off the CPU, which the thread itself cannot see.
#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::thread::{Builder, available_parallelism};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::time::{ClockId, clock_gettime};
use vmnoise_events::Policy;
use vmnoise_labs::Burst;
use vmnoise_workload::{thread, tsc};

/// Below migration threads and watchdogs, above everything ordinary.
const BURST_PRIORITY: i32 = 50;
/// Name of the thread that results must blame for bursts.
const BURNER: &str = "lab-burner";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["busy", cpu] => {
            thread::pin(&[cpu.parse()?])?;
            loop {
                std::hint::spin_loop();
            }
        }
        ["bursts", cpu, hz, burst_us, count, log] => {
            let burst = Duration::from_micros(burst_us.parse()?);
            let bursts = bursts(cpu.parse()?, hz.parse()?, burst, count.parse()?)?;
            let mut log = std::fs::File::create(log).with_context(|| log.to_owned())?;
            for Burst {
                begin_tsc,
                end_tsc,
                charged_ns,
            } in bursts
            {
                writeln!(log, "{begin_tsc} {end_tsc} {charged_ns}")?;
            }
            Ok(())
        }
        _ => bail!("usage: lab-disturb busy CPU | bursts CPU HZ BURST_US COUNT LOG"),
    }
}

/// One thread burns, another paces it from elsewhere: setting a timer on the
/// disturbed CPU would take time there that no log has.
fn bursts(cpu: u32, hz: u32, burst: Duration, count: usize) -> Result<Vec<Burst>> {
    let (mut gone, mut go) = std::io::pipe()?;
    let burner = Builder::new()
        .name(BURNER.into())
        .spawn(move || -> Result<_> {
            thread::pin(&[cpu])?;
            thread::set_policy(Policy::Fifo(BURST_PRIORITY))?;
            let mut log = Vec::with_capacity(count);
            let mut signal = [0];
            let mut charged_before_ns = charged_ns();
            while gone.read(&mut signal)? > 0 {
                let begin_tsc = tsc::now();
                let begin = Instant::now();
                while begin.elapsed() < burst {
                    std::hint::spin_loop();
                }
                let end_tsc = tsc::now();
                let charged_now_ns = charged_ns();
                let charged_ns = charged_now_ns - charged_before_ns;
                log.push(Burst {
                    begin_tsc,
                    end_tsc,
                    charged_ns,
                });
                charged_before_ns = charged_now_ns;
            }
            Ok(log)
        })?;
    let cpus = u32::try_from(available_parallelism()?.get())?;
    let elsewhere: Vec<u32> = (0..cpus).filter(|other| *other != cpu).collect();
    thread::pin(&elsewhere)?;
    let period = Duration::from_secs(1) / hz;
    let start = Instant::now();
    for number in (1..).take(count) {
        std::thread::sleep((period * number).saturating_sub(start.elapsed()));
        if go.write(&[0]).is_err() {
            break; // The other end is gone; why follows.
        }
    }
    drop(go);
    burner
        .join()
        .map_err(|_| anyhow!("the burning thread panicked"))?
}

/// What the scheduler has charged this thread so far (CLOCK_THREAD_CPUTIME_ID).
fn charged_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
