//! Disturbers with a known effect:
//!
//! - `lab-disturb busy CPU` never sleeps.
//! - `lab-disturb bursts CPU HZ BURST_US COUNT LOG` makes COUNT bursts at SCHED_FIFO. For each, it
//!   logs the TSC at the start and at the end, and the CPU time that the scheduler charged the
//!   thread since the previous burst's end. This CPU time includes the switches to and from the
//!   thread, which the thread itself cannot measure.
//! - `lab-disturb storm CPU` runs two threads that wake each other as fast as they can.
//! - `lab-disturb calls CPU` runs `storm`, and makes long system calls and timer interrupts.
//! - `lab-disturb litter CPU` mostly sleeps, and causes work that the kernel does later.
//! - `lab-disturb turns CPU BURST_US EVERY_US LOG` makes bursts at SCHED_FIFO and sleeps for
//!   EVERY_US between them. It logs each burst by CLOCK_MONOTONIC.
//! - `lab-disturb irregular CPU BURST_US EVERY_US` makes bursts and sleeps of random length,
//!   without a log.
//! - `lab-disturb paced CPU BURST_US EVERY_US PHASE_US` starts a burst PHASE_US after each multiple
//!   of EVERY_US of CLOCK_MONOTONIC, without a log.
//!
//! Inside a lab:
//!
//! - `lab-disturb clock` prints CLOCK_MONOTONIC between two readings of the TSC.
//! - `lab-disturb monitor THREAD COUNT EVERY_MS WORD...` waits until a thread works whose name
//!   begins with THREAD. Then it sends the words to QEMU's monitor, COUNT times.
//! - `lab-disturb unplug CPU RECORDING` waits until the recording has grown. Then it takes the CPU
//!   offline for 500 ms.
//! - `lab-disturb online CPU` waits until the CPU is online.
//! - `lab-disturb memory` takes all memory until the kernel kills this process.

mod calls;
mod flood;
mod turns;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::thread::{Builder, available_parallelism};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::process::setpriority_process;
use rustix::time::{ClockId, clock_gettime};
use vmnoise_events::Policy;
use vmnoise_testbed::bed::inside;
use vmnoise_testbed::{Burst, schedstat};
use vmnoise_workload::{thread, tsc};

/// Priority below migration threads and watchdogs, and above all ordinary tasks.
const BURST_PRIORITY: i32 = 50;
/// Device of the kernel's messages (Documentation/ABI/testing/dev-kmsg).
const MESSAGES: &str = "/dev/kmsg";
/// Name of the thread that makes the bursts. Results must blame this name.
const BURNER: &str = "lab-burner";

pub fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["busy", cpu] => {
            thread::pin(&[cpu.parse()?])?;
            // No PAUSE instruction here: QEMU leaves its translated code at each PAUSE.
            loop {
                std::hint::black_box(());
            }
        }
        ["bursts", cpu, hz, burst_us, count, log] => {
            let burst = Duration::from_micros(burst_us.parse()?);
            let bursts = bursts(cpu.parse()?, hz.parse()?, burst, count.parse()?)?;
            let mut log = File::create(log).with_context(|| log.to_owned())?;
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
        ["turns", cpu, burst_us, every_us, log] => {
            let burst = Duration::from_micros(burst_us.parse()?);
            let every = Duration::from_micros(every_us.parse()?);
            match turns::turns(cpu.parse()?, burst, every, log)? {}
        }
        ["irregular", cpu, burst_us, every_us] => {
            let [burst, every] =
                [burst_us, every_us].map(|us| us.parse().map(Duration::from_micros));
            match turns::irregular(cpu.parse()?, burst?, every?)? {}
        }
        ["paced", cpu, ref times @ ..] => {
            let times = times.iter().map(|us| us.parse().map(Duration::from_micros));
            let [burst, every, phase] = times.collect::<Result<Vec<_>, _>>()?[..] else {
                bail!("usage: lab-disturb paced CPU BURST_US EVERY_US PHASE_US");
            };
            match turns::paced(cpu.parse()?, burst, every, phase)? {}
        }
        ["storm", cpu] => calls::storm(cpu.parse()?),
        ["calls", cpu] => match calls::calls(cpu.parse()?)? {},
        ["vsock", cid] => match calls::vsock(cid.parse()?)? {},
        ["litter", cpu] => litter(cpu.parse()?),
        ["expiries", cpu, count, every_us, times] => {
            let every = Duration::from_micros(every_us.parse()?);
            flood::expiries(cpu.parse()?, count.parse()?, every, times.parse()?)
        }
        ["timeouts", cpu, count, every_us] => {
            let every = Duration::from_micros(every_us.parse()?);
            match flood::timeouts(cpu.parse()?, count.parse()?, every)? {}
        }
        ["clock"] => {
            let at = tsc::anchor();
            println!("{} {} {}", at.before_tsc, at.mono_ns, at.after_tsc);
            Ok(())
        }
        ["monitor", thread, count, every_ms, ref words @ ..] => {
            let every = Duration::from_millis(every_ms.parse()?);
            monitor(thread, count.parse()?, every, &words.join(" "))
        }
        ["memory"] => match memory()? {},
        ["unplug", cpu, recording] => unplug(cpu.parse()?, recording),
        ["online", cpu] => wait_for_cpu(cpu.parse()?),
        _ => bail!(
            "usage: lab-disturb busy CPU | bursts CPU HZ BURST_US COUNT LOG | storm CPU | calls CPU | litter CPU | \
             turns CPU BURST_US EVERY_US LOG | irregular CPU BURST_US EVERY_US | clock | expiries CPU COUNT EVERY_US TIMES | \
             timeouts CPU COUNT EVERY_US | monitor THREAD COUNT EVERY_MS WORD... | unplug CPU RECORDING | online CPU | \
             memory | vsock CID"
        ),
    }
}

/// Makes bursts in one thread. Another thread starts each burst, from another CPU if there is one.
/// A timer on the disturbed CPU would take time there that the log does not contain.
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
                while begin.elapsed() < burst {}
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
    if !elsewhere.is_empty() {
        thread::pin(&elsewhere)?;
    }
    let period = Duration::from_secs(1) / hz;
    let start = Instant::now();
    for number in (1..).take(count) {
        std::thread::sleep((period * number).saturating_sub(start.elapsed()));
        if go.write(&[0]).is_err() {
            break; // The burner has ended; `join` returns its error.
        }
    }
    drop(go);
    burner
        .join()
        .map_err(|_| anyhow!("the burning thread panicked"))?
}

/// Waits until a thread works. Then sends a request to QEMU's monitor `count` times.
fn monitor(thread: &str, count: usize, every: Duration, request: &str) -> Result<()> {
    // CPU time in nanoseconds after which the thread has finished its set-up.
    const AT_WORK_NS: u64 = 100_000_000;
    while on_cpu_ns(thread)?.is_none_or(|ns| ns < AT_WORK_NS) {
        std::thread::sleep(every);
    }
    let mut port = File::options().write(true).open(inside::MONITOR)?;
    for _ in 0..count {
        writeln!(port, "{request}")?;
        std::thread::sleep(every);
    }
    Ok(())
}

/// Returns the CPU time of the first thread whose name begins with `name`, nanoseconds; `None` if
/// there is none.
fn on_cpu_ns(name: &str) -> Result<Option<u64>> {
    for entry in std::fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|pid| pid.parse().ok()) else {
            continue;
        };
        // A process that ends during the read does not contain the thread.
        let threads = schedstat::threads(pid).unwrap_or_default();
        if let Some((tid, _)) = threads.iter().find(|(_, comm)| comm.starts_with(name)) {
            return Ok(schedstat::read(pid, *tid).ok().map(|stat| stat.on_cpu_ns));
        }
    }
    Ok(None)
}

/// Causes work that the kernel does later. The kernel frees a closed file after an RCU grace
/// period, and wakes the reader of a message from `irq_work` (kernel/printk/printk.c,
/// `wake_up_klogd`).
fn litter(cpu: u32) -> Result<()> {
    const FILES: usize = 3;
    thread::pin(&[cpu])?;
    // By default the kernel accepts only ten messages per writer in five seconds.
    std::fs::write("/proc/sys/kernel/printk_devkmsg", "on\n")?;
    let mut messages = File::options().read(true).write(true).open(MESSAGES)?;
    let mut reader = messages.try_clone()?;
    Builder::new().spawn(move || {
        let mut message = [0; 1_000];
        // The kernel returns an error if messages were lost. The reader ignores it.
        loop {
            let _ = reader.read(&mut message);
        }
    })?;
    loop {
        for _ in 0..FILES {
            File::open("/dev/null")?;
        }
        // With the lowest level, so that no console shows the message.
        messages.write_all(b"<7>litter")?;
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// Waits until a run has written its first events to this recording. Then takes the CPU offline for
/// 500 ms, which every tool can notice.
fn unplug(cpu: u32, recording: &str) -> Result<()> {
    let mut sizes = BTreeSet::new();
    // The file is empty first. Then it contains the run's header, and then the events of the first
    // second.
    while sizes.len() < 3 {
        sizes.insert(std::fs::metadata(recording).map_or(0, |file| file.len()));
        std::thread::sleep(Duration::from_millis(20));
    }
    let online = online(cpu);
    std::fs::write(&online, "0").with_context(|| online.clone())?;
    std::thread::sleep(Duration::from_millis(500));
    std::fs::write(&online, "1").with_context(|| online.clone())
}

/// Takes all memory. This process makes itself the first choice of the OOM killer
/// (proc_pid_oom_score_adj(5)).
fn memory() -> Result<Infallible> {
    ensure!(
        Path::new(inside::COMMANDS).exists(),
        "this takes all memory of the machine: inside a lab only"
    );
    std::fs::write("/proc/self/oom_score_adj", "1000")?;
    // Otherwise this would take minutes while pollers run on every CPU.
    setpriority_process(None, -20)?;
    let mut taken = Vec::new();
    loop {
        // Ones, because pages of zeroes would exist only after a write. The size allows huge pages.
        taken.push(vec![1_u8; 64 << 20]);
    }
}

fn wait_for_cpu(cpu: u32) -> Result<()> {
    while std::fs::read_to_string(online(cpu))?.trim() != "1" {
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Returns the path of the file that contains 1 while the CPU is online, and 0 otherwise
/// (Documentation/core-api/cpu_hotplug.rst).
fn online(cpu: u32) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}/online")
}

/// Returns the CPU time that the scheduler has charged this thread so far, nanoseconds
/// (CLOCK_THREAD_CPUTIME_ID).
fn charged_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
