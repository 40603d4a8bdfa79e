//! `lab-disturb busy CPU` never sleeps; `lab-disturb bursts CPU HZ BURST_US LOG`
//! burns in bursts at SCHED_FIFO and logs the TSC at each begin and end;
//! `lab-disturb timer CPU HZ` makes timer interrupts there and runs nothing.
#![forbid(unsafe_code)]

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use vmnoise_events::Policy;
use vmnoise_workload::{thread, tsc};

/// Below migration threads and watchdogs, above everything ordinary.
const BURST_PRIORITY: i32 = 50;

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
        ["bursts", cpu, hz, burst_us, log] => {
            thread::pin(&[cpu.parse()?])?;
            thread::set_policy(Policy::Fifo(BURST_PRIORITY))?;
            bursts(hz.parse()?, Duration::from_micros(burst_us.parse()?), log)
        }
        ["timer", cpu, hz] => {
            thread::pin(&[cpu.parse()?])?;
            timer(hz.parse()?)
        }
        _ => bail!("usage: lab-disturb busy CPU | bursts CPU HZ BURST_US LOG | timer CPU HZ"),
    }
}

fn bursts(hz: u32, burst: Duration, log: &str) -> Result<()> {
    let mut log = std::fs::File::create(log).with_context(|| log.to_owned())?;
    let period = Duration::from_secs(1) / hz;
    let start = Instant::now();
    let mut next = period;
    loop {
        std::thread::sleep(next.saturating_sub(start.elapsed()));
        let begin = Instant::now();
        let begin_tsc = tsc::now();
        while begin.elapsed() < burst {
            std::hint::spin_loop();
        }
        let end_tsc = tsc::now();
        writeln!(log, "{begin_tsc} {end_tsc}")?;
        next += period;
    }
}

/// A timer that nobody waits for: its interrupt comes to the CPU that armed it.
fn timer(hz: u32) -> Result<()> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::empty())?;
    let period = Timespec {
        tv_sec: 0,
        tv_nsec: i64::from(1_000_000_000 / hz),
    };
    let setting = Itimerspec {
        it_interval: period,
        it_value: period,
    };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &setting)?;
    loop {
        std::thread::park();
    }
}
