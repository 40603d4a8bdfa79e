//! Runs the jobs of a periodic task.

use std::str::FromStr;

use anyhow::{Context, Error, Result, bail, ensure};
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec};
use vmnoise_events::Policy;
use vmnoise_testbed::periodic::PlayedTask;
use vmnoise_workload::thread;

use super::clock::{NS_PER_S, charged_ns, mono_ns};
use super::work::CpuSpeed;

/// Budget of a SCHED_DEADLINE task in percent of its period. It is larger than the work of a job:
/// without budget, a task would wait for another reason than disturbances. With this budget, the
/// kernel admits three such tasks.
const BUDGET_PERCENT: u64 = 30;

/// Time in nanoseconds for which the threads stay after the last job. Ending a thread takes CPU
/// time that belongs to no job, and would delay the last jobs of other tasks.
const STAYS_NS: u64 = 200_000_000;

pub struct Task {
    pub name: String,
    /// SCHED_FIFO priority; `None` for SCHED_DEADLINE.
    priority: Option<i32>,
    work_us: u64,
    period_ns: u64,
}

impl FromStr for Task {
    type Err = Error;

    fn from_str(text: &str) -> Result<Task> {
        let parts: Vec<&str> = text.split(':').collect();
        let [name, priority, work_us, period_us] = parts[..] else {
            bail!("`{text}` is not NAME:PRIORITY:WORK_US:PERIOD_US");
        };
        let priority = match priority {
            "deadline" => None,
            number => Some(number.parse().with_context(|| text.to_owned())?),
        };
        let period_us: u64 = period_us.parse().with_context(|| text.to_owned())?;
        ensure!(period_us > 0, "`{text}`: its period is 0");
        Ok(Task {
            name: name.to_owned(),
            priority,
            work_us: work_us.parse().with_context(|| text.to_owned())?,
            period_ns: period_us * 1_000,
        })
    }
}

impl Task {
    /// Runs the jobs that arrive from `start_ns` until `end_ns`, CLOCK_MONOTONIC in nanoseconds. A
    /// late job is not dropped, and the next job follows at once.
    pub fn play(
        &self,
        cpu: u32,
        work: &CpuSpeed,
        start_ns: u64,
        end_ns: u64,
    ) -> Result<PlayedTask> {
        let most = (end_ns - start_ns).div_ceil(self.period_ns);
        let mut done_ns: Vec<u64> = Vec::with_capacity(usize::try_from(most)?);
        // The policy is set first: the poller would keep an ordinary thread from running on that
        // CPU.
        thread::set_policy(self.policy())?;
        thread::pin(&[cpu])?;
        let first_charged_ns = charged_ns();
        let mut expiry_ns = start_ns;
        while expiry_ns < end_ns && mono_ns() < end_ns {
            sleep_until(expiry_ns)?;
            work.take(self.work_us);
            done_ns.push(mono_ns());
            expiry_ns += self.period_ns;
        }
        sleep_until(end_ns + STAYS_NS)?;
        Ok(PlayedTask {
            name: self.name.clone(),
            tid: thread::tid(),
            priority: self.priority,
            work_ns: self.work_us * 1_000,
            period_ns: self.period_ns,
            charged_ns: charged_ns() - first_charged_ns,
            start_ns,
            done_ns,
        })
    }

    fn policy(&self) -> Policy {
        match self.priority {
            Some(priority) => Policy::Fifo(priority),
            None => Policy::Deadline {
                runtime_ns: self.period_ns * BUDGET_PERCENT / 100,
                period_ns: self.period_ns,
            },
        }
    }
}

fn sleep_until(mono_ns: u64) -> Result<()> {
    let time = Timespec {
        tv_sec: (mono_ns / NS_PER_S).cast_signed(),
        tv_nsec: (mono_ns % NS_PER_S).cast_signed(),
    };
    clock_nanosleep_absolute(ClockId::Monotonic, &time).context("waiting for the next job")
}
