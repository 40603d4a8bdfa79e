//! Known causes: programs that take a CPU and log what they took.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, setpriority_process};

use crate::run::lab_program;
use crate::schedstat::{self, Schedstat};
use crate::{stress_ng, vmm};

/// One burst as its maker logged it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// Host TSC at its begin.
    pub begin_tsc: u64,
    /// Host TSC at its end.
    pub end_tsc: u64,
    /// What the scheduler charged the thread from the end of the burst before to the
    /// end of this one.
    pub charged_ns: u64,
}

/// A running disturber; it ends when dropped.
#[derive(Debug)]
pub struct Disturber {
    child: Child,
    log: Option<PathBuf>,
}

impl Disturber {
    /// A task of ordinary priority that never sleeps, on this CPU.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn busy(cpu: u32) -> Result<Disturber> {
        Disturber::on_cpu("busy", cpu)
    }

    /// Two tasks that wake each other on this CPU, as fast as they can.
    ///
    /// # Errors
    /// If they cannot be started.
    pub fn storm(cpu: u32) -> Result<Disturber> {
        Disturber::on_cpu("storm", cpu)
    }

    /// Tasks of ordinary priority that make system calls and interrupts on this CPU.
    ///
    /// # Errors
    /// If they cannot be started.
    pub fn calls(cpu: u32) -> Result<Disturber> {
        Disturber::on_cpu("calls", cpu)
    }

    /// stress-ng on this CPU, at work.
    ///
    /// # Errors
    /// If it cannot be started, or does not begin.
    pub fn stress_ng(cpu: u32) -> Result<Disturber> {
        let command = stress_ng::command(cpu, "/tmp");
        let mut words = command.split(' ');
        let program = words.next().unwrap_or_default();
        let disturber = Disturber::start(Command::new(program).args(words), None)?;
        let pid = disturber.child.id();
        vmm::wait_for("stress-ng to begin", || Ok(stress_ng::is_at_work(pid)))?;
        Ok(disturber)
    }

    /// A task at SCHED_FIFO that burns a burst this often on this CPU, and logs each there.
    ///
    /// # Errors
    /// If it cannot be started.
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

    /// A task at SCHED_FIFO that burns this CPU from `phase` after each multiple of `every` of CLOCK_MONOTONIC
    /// until `burst` later.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn paced(cpu: u32, burst: Duration, every: Duration, phase: Duration) -> Result<Disturber> {
        let times = [burst, every, phase].map(|time| time.as_micros().to_string());
        let mut command = Command::new(lab_program("lab-disturb")?);
        Disturber::start(command.args(["paced", &cpu.to_string()]).args(times), None)
    }

    /// A task at SCHED_FIFO that burns about such a burst about this often on this CPU, by chance.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn irregular(cpu: u32, burst: Duration, every: Duration) -> Result<Disturber> {
        let numbers = [cpu.into(), burst.as_micros(), every.as_micros()];
        let mut command = Command::new(lab_program("lab-disturb")?);
        command.arg("irregular");
        Disturber::start(command.args(numbers.map(|it| it.to_string())), None)
    }

    /// Interrupts on this CPU in each of which so many timers expire.
    ///
    /// # Errors
    /// If they cannot be started.
    pub fn expiries(cpu: u32, count: u32, every: Duration) -> Result<Disturber> {
        let numbers = [cpu.into(), count.into(), every.as_micros(), u32::MAX.into()];
        let mut command = Command::new(lab_program("lab-disturb")?);
        command.arg("expiries");
        Disturber::start(command.args(numbers.map(|it| it.to_string())), None)
    }

    /// A task that mostly sleeps, and leaves the kernel work for later on this CPU.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn litter(cpu: u32) -> Result<Disturber> {
        Disturber::on_cpu("litter", cpu)
    }

    fn on_cpu(what: &str, cpu: u32) -> Result<Disturber> {
        let mut command = Command::new(lab_program("lab-disturb")?);
        Disturber::start(command.args([what, &cpu.to_string()]), None)
    }

    /// A SCHED_FIFO task that burns `count` times `burst`, `hz` times a second, on
    /// this CPU, and then logs them to `log`.
    ///
    /// # Errors
    /// If it cannot be started.
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

    /// Timer interrupts at this rate on this CPU, and no task that runs there: perf
    /// samples its clock and throws the samples away.
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

    /// A process that takes all memory there is, until the kernel ends it; inside a lab.
    ///
    /// # Errors
    /// If it cannot be started, or ends otherwise.
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
        // Long enough to be at work: no test relies on it being so at an instant.
        std::thread::sleep(Duration::from_millis(500));
        let failed = child.try_wait()?.filter(|status| !status.success());
        if let Some(status) = failed {
            bail!("{command:?} ended with {status}");
        }
        Ok(Disturber { child, log })
    }

    /// Gives all its threads the highest priority of ordinary tasks (nice -20), so that it has its CPU
    /// most of the time, whatever else this machine runs there.
    ///
    /// # Errors
    /// If it is gone, or the kernel refuses.
    pub fn outranking(self) -> Result<Disturber> {
        for (tid, comm) in schedstat::threads(self.child.id())? {
            setpriority_process(Pid::from_raw(tid.cast_signed()), -20).with_context(|| comm)?;
        }
        Ok(self)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The name under which results must blame it.
    ///
    /// # Errors
    /// If it is gone.
    pub fn source(&self) -> Result<String> {
        let threads = schedstat::threads(self.child.id())?;
        let burner = threads.iter().find(|(_, comm)| comm == "lab-burner");
        let (tid, comm) = burner.or(threads.first()).context("it has no thread")?;
        Ok(format!("{comm}:{tid}"))
    }

    /// That it has worked until now: one that ends by itself has disturbed nobody for as long as it was to.
    ///
    /// # Errors
    /// If it has ended.
    pub fn has_worked(&mut self) -> Result<()> {
        let ended = self.child.try_wait()?;
        ensure!(ended.is_none(), "what disturbs has ended before: {ended:?}");
        Ok(())
    }

    /// What the scheduler keeps of it.
    ///
    /// # Errors
    /// If it is gone.
    pub fn schedstat(&self) -> Result<Schedstat> {
        schedstat::read(self.child.id(), self.child.id())
    }

    /// Waits for its end and reads its log.
    ///
    /// # Errors
    /// If it kept none, or the log cannot be read.
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
        // It may have ended already, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
