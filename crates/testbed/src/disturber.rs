//! Disturbers: programs that take time from a CPU. Tests check that `vmnoise` blames these
//! programs.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, setpriority_process};

use crate::run::lab_program;
use crate::schedstat::{self, Schedstat};
use crate::{stress_ng, vmm};

/// One burst (a period of continuous work), as the disturber logged it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// TSC of the host at the start of the burst.
    pub begin_tsc: u64,
    /// TSC of the host at the end of the burst.
    pub end_tsc: u64,
    /// CPU time, nanoseconds, that the scheduler charged to the disturber's thread from the end of
    /// the previous burst to the end of this burst.
    pub charged_ns: u64,
}

/// A running disturber. Dropping this value ends the program.
#[derive(Debug)]
pub struct Disturber {
    child: Child,
    log: Option<PathBuf>,
}

impl Disturber {
    /// Starts a task of ordinary priority on this CPU. The task never sleeps.
    ///
    /// # Errors
    /// If the task cannot be started.
    pub fn busy(cpu: u32) -> Result<Disturber> {
        Disturber::on_cpu("busy", cpu)
    }

    /// Starts two tasks that wake each other on this CPU, as fast as they can.
    ///
    /// # Errors
    /// If the tasks cannot be started.
    pub fn storm(cpu: u32) -> Result<Disturber> {
        Disturber::on_cpu("storm", cpu)
    }

    /// Starts tasks of ordinary priority on this CPU that make system calls and cause interrupts.
    ///
    /// # Errors
    /// If the tasks cannot be started.
    pub fn calls(cpu: u32) -> Result<Disturber> {
        Disturber::on_cpu("calls", cpu)
    }

    /// Starts stress-ng on this CPU, and waits until all of its workers have started.
    ///
    /// # Errors
    /// If stress-ng cannot be started, or its workers do not start.
    pub fn stress_ng(cpu: u32) -> Result<Disturber> {
        let command = stress_ng::command(cpu, "/tmp");
        let mut words = command.split(' ');
        let program = words.next().unwrap_or_default();
        let disturber = Disturber::start(Command::new(program).args(words), None)?;
        let pid = disturber.child.id();
        vmm::wait_for("stress-ng to begin", || Ok(stress_ng::is_at_work(pid)))?;
        Ok(disturber)
    }

    /// Starts a SCHED_FIFO task on this CPU. The task works for `burst`, sleeps for `every`, and
    /// repeats both. It appends each burst to `log`.
    ///
    /// # Errors
    /// If the task cannot be started.
    pub fn turns(cpu: u32, burst: Duration, every: Duration, log: &Path) -> Result<Disturber> {
        let numbers = [cpu.into(), burst.as_micros(), every.as_micros()];
        let numbers = numbers.map(|number| number.to_string());
        Disturber::start(
            Command::new(lab_program("lab-disturb")?)
                .arg("turns")
                .args(numbers)
                .arg(log),
            None,
        )
    }

    /// Starts a SCHED_FIFO task on this CPU. Each of its bursts lasts `burst`, and begins `phase`
    /// after a multiple of `every` on CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// If the task cannot be started.
    pub fn paced(cpu: u32, burst: Duration, every: Duration, phase: Duration) -> Result<Disturber> {
        let times = [burst, every, phase].map(|time| time.as_micros().to_string());
        let mut command = Command::new(lab_program("lab-disturb")?);
        Disturber::start(command.args(["paced", &cpu.to_string()]).args(times), None)
    }

    /// Starts a SCHED_FIFO task on this CPU that works and sleeps for random times. A burst lasts
    /// `burst` on average, and a sleep lasts `every` on average.
    ///
    /// # Errors
    /// If the task cannot be started.
    pub fn irregular(cpu: u32, burst: Duration, every: Duration) -> Result<Disturber> {
        let numbers = [cpu.into(), burst.as_micros(), every.as_micros()];
        let mut command = Command::new(lab_program("lab-disturb")?);
        command.arg("irregular");
        Disturber::start(command.args(numbers.map(|it| it.to_string())), None)
    }

    /// Starts a task that causes one timer interrupt per `every` on this CPU. In each interrupt,
    /// `count` timers expire.
    ///
    /// # Errors
    /// If the task cannot be started.
    pub fn expiries(cpu: u32, count: u32, every: Duration) -> Result<Disturber> {
        let numbers = [cpu.into(), count.into(), every.as_micros(), u32::MAX.into()];
        let mut command = Command::new(lab_program("lab-disturb")?);
        command.arg("expiries");
        Disturber::start(command.args(numbers.map(|it| it.to_string())), None)
    }

    /// Starts a task on this CPU that sleeps most of the time. Between its sleeps, the task causes
    /// work that the kernel does later on the same CPU.
    ///
    /// # Errors
    /// If the task cannot be started.
    pub fn litter(cpu: u32) -> Result<Disturber> {
        Disturber::on_cpu("litter", cpu)
    }

    fn on_cpu(what: &str, cpu: u32) -> Result<Disturber> {
        let mut command = Command::new(lab_program("lab-disturb")?);
        Disturber::start(command.args([what, &cpu.to_string()]), None)
    }

    /// Starts a SCHED_FIFO task on this CPU with `hz` bursts per second, each of length `burst`.
    /// After `count` bursts, the task writes all of them to `log`.
    ///
    /// # Errors
    /// If the task cannot be started.
    pub fn bursts(
        cpu: u32,
        hz: u32,
        burst: Duration,
        count: usize,
        log: &Path,
    ) -> Result<Disturber> {
        let (cpu, hz, count) = (cpu.to_string(), hz.to_string(), count.to_string());
        let burst_us = burst.as_micros().to_string();
        let path = log.to_str().context("the path of the log is not UTF-8")?;
        let arguments = ["bursts", &cpu, &hz, &burst_us, &count, path];
        Disturber::start(
            Command::new(lab_program("lab-disturb")?).args(arguments),
            Some(log.to_owned()),
        )
    }

    /// Starts `hz` timer interrupts per second on this CPU, without a task that runs there. For
    /// this, `perf record` samples the CPU's clock, and writes the samples to `/dev/null`.
    ///
    /// # Errors
    /// If perf (package linux-perf) cannot be started.
    pub fn timer(cpu: u32, hz: u32) -> Result<Disturber> {
        let period_ns = (1_000_000_000 / hz).to_string();
        let mut perf = Command::new("perf");
        perf.args([
            "record",
            "--quiet",
            "--event",
            "cpu-clock",
            "--output",
            "/dev/null",
        ])
        .args([
            "--cpu",
            &cpu.to_string(),
            "--count",
            &period_ns,
            "--",
            "sleep",
            "3600",
        ]);
        Disturber::start(&mut perf, None)
    }

    /// Runs a process that takes all memory, and returns when the kernel has killed this process.
    /// For use in labs only.
    ///
    /// # Errors
    /// If the process cannot be started, or ends without a signal.
    pub fn memory() -> Result<()> {
        let mut hog = Command::new(lab_program("lab-disturb")?);
        let status = hog.arg("memory").stdin(Stdio::null()).status()?;
        ensure!(
            status.code().is_none(),
            "lab-disturb memory ended with {status}"
        );
        Ok(())
    }

    fn start(command: &mut Command, log: Option<PathBuf>) -> Result<Disturber> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {}", command.get_program().display()))?;
        // Gives the program time to begin its work. No test depends on the exact instant.
        std::thread::sleep(Duration::from_millis(500));
        let failed = child.try_wait()?.filter(|status| !status.success());
        if let Some(status) = failed {
            bail!("{command:?} ended with {status}");
        }
        Ok(Disturber { child, log })
    }

    /// Gives all threads of the disturber the highest priority of ordinary tasks (nice -20). The
    /// disturber then has its CPU most of the time, whatever else runs there.
    ///
    /// # Errors
    /// If the disturber has ended, or the kernel refuses.
    pub fn outranking(self) -> Result<Disturber> {
        for (tid, comm) in schedstat::threads(self.child.id())? {
            setpriority_process(Pid::from_raw(tid.cast_signed()), -20).with_context(|| comm)?;
        }
        Ok(self)
    }

    /// Returns the process ID of the disturber.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the name that results must blame for the disturber's work: `comm:tid`.
    ///
    /// # Errors
    /// If the disturber has ended.
    pub fn source(&self) -> Result<String> {
        let threads = schedstat::threads(self.child.id())?;
        let burner = threads.iter().find(|(_, comm)| comm == "lab-burner");
        let (tid, comm) = burner.or(threads.first()).context("it has no thread")?;
        Ok(format!("{comm}:{tid}"))
    }

    /// Checks that the disturber still runs. If it ended early, it did not disturb for the whole
    /// time.
    ///
    /// # Errors
    /// If the disturber has ended.
    pub fn has_worked(&mut self) -> Result<()> {
        let ended = self.child.try_wait()?;
        ensure!(ended.is_none(), "the disturber has ended early: {ended:?}");
        Ok(())
    }

    /// Returns the scheduler's counts of the disturber's first thread.
    ///
    /// # Errors
    /// If the disturber has ended.
    pub fn schedstat(&self) -> Result<Schedstat> {
        schedstat::read(self.child.id(), self.child.id())
    }

    /// Waits for the end of the disturber, and returns the bursts in its log.
    ///
    /// # Errors
    /// If the disturber has no log, or the log cannot be read.
    pub fn into_log(mut self) -> Result<Vec<Burst>> {
        ensure!(self.child.wait()?.success(), "the disturber failed");
        let path = self.log.as_ref().context("this disturber keeps no log")?;
        let text = std::fs::read_to_string(path)?;
        text.lines()
            .map(|line| {
                let mut numbers = line.split(' ').map(str::parse);
                let mut next = || numbers.next().context("a short line in the log");
                Ok(Burst {
                    begin_tsc: next()??,
                    end_tsc: next()??,
                    charged_ns: next()??,
                })
            })
            .collect()
    }
}

impl Drop for Disturber {
    fn drop(&mut self) {
        // The program may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
