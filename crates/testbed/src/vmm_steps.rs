//! Steps that `lab-vmm` performs on a VMM, and the record that it prints for tests.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// File to which the disturber `turns` logs its bursts. Each line is the start and the end of one
/// burst, by CLOCK_MONOTONIC of the machine in nanoseconds.
pub const TURNS: &str = "/tmp/turns";

/// A step of `lab-vmm`. Each variant begins with its word on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VmmStep {
    /// `traced`: waits until a process has attached all of its BPF programs.
    Traced,
    /// `start`: starts the VMM, and waits until KVM has counted an exit of the guest.
    Start,
    /// `run:MS`: waits this long.
    Run(Duration),
    /// `undisturbed:CPU:MS`: polls on this CPU for this time.
    Undisturbed(u32, Duration),
    /// `exits:COUNT`: waits until KVM has counted this many more exits.
    Exits(u64),
    /// `quiet:MS`: waits until KVM has counted no exit for this time.
    Quiet(Duration),
    /// `waited:MS`: waits until the vCPUs' threads have waited for a CPU for this much longer in
    /// total.
    Waited(Duration),
    /// `told:COUNT`, `told:COUNT:GUEST`: waits until COUNT commands of a guest of the lab have
    /// ended. Without GUEST, this is guest 0.
    Reported(usize, u32),
    /// `looks:COUNT`: waits until COUNT commands of guest 0 have ended. Until then, `lab-vmm` reads
    /// the scheduler's counts of the first vCPU's thread again and again.
    Looks(usize),
    /// `stop`: sends SIGSTOP, and waits until no thread of the VMM is on a CPU.
    Stop,
    /// `cont`: sends SIGCONT.
    Continue,
    /// `read`: reads the kernel's counts. They are exact only while the VMM is stopped.
    Read,
    /// `kill`: sends SIGKILL, and waits until the VMM has ended.
    Kill,
    /// `end`: waits until the VMM ends by itself.
    End,
    /// `hog:CPU`: starts a task of ordinary priority on this CPU. The task never sleeps.
    Hog(u32),
    /// `litter:CPU`: starts a task on this CPU that mostly sleeps, and causes work that the kernel
    /// does later on the same CPU.
    Litter(u32),
    /// `turns:CPU:BURST_US:EVERY_US`: starts a SCHED_FIFO task on this CPU. The task works for
    /// BURST_US, sleeps for EVERY_US, repeats both, and logs each burst to [`TURNS`].
    Turns(u32, Duration, Duration),
    /// `unhog`: ends the last disturber that was started, and fails if that disturber has ended
    /// early.
    Unhog,
    /// `migrate:TIMES:EVERY_US`: moves the thread of the first vCPU between CPUs 0 and 1. Reads the
    /// thread's counts after each move.
    Migrate(u32, Duration),
    /// `moves:COUNT:EVERY_US`: as `migrate`, but until COUNT commands of guest 0 have ended.
    Moves(usize, Duration),
    /// `pin:CPU`: pins the thread of the first vCPU to this CPU.
    Pin(u32),
    /// `fifo:PRIORITY`: runs every vCPU's thread at SCHED_FIFO.
    Fifo(i32),
    /// `vmm-fifo:PRIORITY`: runs every thread of the VMM at SCHED_FIFO.
    VmmFifo(i32),
    /// `calls:CPU`: starts tasks of ordinary priority on this CPU that make system calls and cause
    /// interrupts.
    Calls(u32),
    /// `stress-ng:CPU`: starts stress-ng on this CPU.
    StressNg(u32),
    /// `quota:QUOTA_US:PERIOD_US`: moves the VMM into a cgroup with this `cpu.max`.
    Quota(u32, u32),
    /// `untrace`: sends SIGINT to a process that has attached all its BPF programs, and waits until
    /// this process has ended.
    Untrace,
}

impl VmmStep {
    /// Parses a step.
    ///
    /// # Errors
    /// If there is no step of this name, or its numbers are wrong.
    pub fn from_word(word: &str) -> Result<VmmStep> {
        let number = |text: &str| text.parse::<u32>().with_context(|| format!("in `{word}`"));
        let parts: Vec<&str> = word.split(':').collect();
        Ok(match parts[..] {
            ["traced"] => VmmStep::Traced,
            ["start"] => VmmStep::Start,
            ["run", ms] => VmmStep::Run(Duration::from_millis(number(ms)?.into())),
            ["undisturbed", cpu, ms] => {
                let time = Duration::from_millis(number(ms)?.into());
                VmmStep::Undisturbed(number(cpu)?, time)
            }
            ["exits", count] => VmmStep::Exits(number(count)?.into()),
            ["quiet", ms] => VmmStep::Quiet(Duration::from_millis(number(ms)?.into())),
            ["waited", ms] => VmmStep::Waited(Duration::from_millis(number(ms)?.into())),
            ["told", count] => VmmStep::Reported(number(count)? as usize, 0),
            ["told", count, guest] => VmmStep::Reported(number(count)? as usize, number(guest)?),
            ["looks", count] => VmmStep::Looks(number(count)? as usize),
            ["stop"] => VmmStep::Stop,
            ["cont"] => VmmStep::Continue,
            ["read"] => VmmStep::Read,
            ["kill"] => VmmStep::Kill,
            ["end"] => VmmStep::End,
            ["hog", cpu] => VmmStep::Hog(number(cpu)?),
            ["litter", cpu] => VmmStep::Litter(number(cpu)?),
            ["turns", cpu, burst, every] => {
                let us = |text| Ok::<_, anyhow::Error>(Duration::from_micros(number(text)?.into()));
                VmmStep::Turns(number(cpu)?, us(burst)?, us(every)?)
            }
            ["unhog"] => VmmStep::Unhog,
            ["migrate", times, us] => {
                let every = Duration::from_micros(number(us)?.into());
                VmmStep::Migrate(number(times)?, every)
            }
            ["moves", count, us] => {
                let every = Duration::from_micros(number(us)?.into());
                VmmStep::Moves(number(count)? as usize, every)
            }
            ["pin", cpu] => VmmStep::Pin(number(cpu)?),
            ["fifo", priority] => VmmStep::Fifo(number(priority)?.cast_signed()),
            ["vmm-fifo", priority] => VmmStep::VmmFifo(number(priority)?.cast_signed()),
            ["calls", cpu] => VmmStep::Calls(number(cpu)?),
            ["stress-ng", cpu] => VmmStep::StressNg(number(cpu)?),
            ["quota", quota, period] => VmmStep::Quota(number(quota)?, number(period)?),
            ["untrace"] => VmmStep::Untrace,
            _ => bail!("no step is called `{word}`"),
        })
    }
}

/// Record of the steps that `lab-vmm` performed on one VMM.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Treatment {
    /// Process ID of the VMM.
    pub pid: u32,
    /// Output of the VMM. Empty without the step `end`.
    pub said: String,
    /// Performed steps in order.
    pub steps: Vec<CompletedStep>,
}

/// A step that `lab-vmm` has performed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CompletedStep {
    /// Name of the step on the command line.
    pub step: String,
    /// Start of the step, CLOCK_MONOTONIC in nanoseconds.
    pub begin_mono_ns: u64,
    /// End of the step, CLOCK_MONOTONIC in nanoseconds.
    pub end_mono_ns: u64,
    /// Counts that the step `read` returned; `None` for other steps.
    pub counts: Option<Counts>,
    /// Name that results must blame for the disturber that runs at the end of this step; `None` if
    /// none runs.
    pub hog: Option<String>,
    /// Time for which nothing took the CPU from the poller; only for `undisturbed`.
    pub undisturbed: Option<Duration>,
    /// Reads of the counts of the first vCPU's thread, in order; only for `looks`, `migrate` and
    /// `moves`.
    pub looks: Vec<ThreadSchedstat>,
}

/// Run delay of a vCPU's thread by the scheduler's count, and the time of the read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadSchedstat {
    /// Guest's TSC before the read. It is this machine's TSC plus the offset that KVM reports in
    /// debugfs.
    pub begin_tsc: u64,
    /// Guest's TSC after the read.
    pub end_tsc: u64,
    /// Time that the thread was runnable and waited for a CPU, nanoseconds. The scheduler adds a
    /// wait when the wait ends (kernel/sched/stats.h, `sched_info_arrive`).
    pub run_delay_ns: u64,
}

/// Counts of the kernel for one VM.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Counts {
    /// KVM's own counters, summed over all vCPUs.
    pub kvm: BTreeMap<String, u64>,
    /// The scheduler's counts of each vCPU's thread.
    pub vcpus: Vec<VcpuCounts>,
    /// Throttled time of the cgroup that `quota` made, nanoseconds, with a resolution of 1 µs;
    /// `None` without `quota`.
    pub throttled_ns: Option<u64>,
}

/// The scheduler's counts of one vCPU's thread.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct VcpuCounts {
    /// Number of the vCPU.
    pub vcpu: u32,
    /// Thread ID.
    pub tid: u32,
    /// Time of the thread on a CPU, nanoseconds.
    pub on_cpu_ns: u64,
    /// Time that the thread was runnable and waited for a CPU, nanoseconds.
    pub run_delay_ns: u64,
    /// Number of times that the thread was moved to another CPU.
    pub migrations: u64,
}

impl Treatment {
    /// Returns all performed steps with this word, in order.
    pub fn all(&self, step: &str) -> Vec<&CompletedStep> {
        self.steps.iter().filter(|done| done.step == step).collect()
    }

    /// Returns all reads of the counts of the first vCPU's thread, in order.
    pub fn looks(&self) -> impl Iterator<Item = &ThreadSchedstat> {
        self.steps.iter().flat_map(|done| &done.looks)
    }

    /// Returns the counts of all `read` steps, in order.
    pub fn readings(&self) -> Vec<&Counts> {
        let counts = self.steps.iter().map(|done| done.counts.as_ref());
        counts.flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_words() {
        let quota = VmmStep::from_word("quota:5000:10000").unwrap();
        assert_eq!(quota, VmmStep::Quota(5_000, 10_000));
        assert_eq!(VmmStep::from_word("stop").unwrap(), VmmStep::Stop);
        for wrong in ["", "stop:1", "run", "run:soon", "migrate:3"] {
            assert!(VmmStep::from_word(wrong).is_err(), "{wrong}");
        }
    }
}
