//! Steps that `lab-vmm` does to a VMM, and their record for tests.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// File with start and end of each burst of `turns`, one burst per line, CLOCK_MONOTONIC of its
/// machine in nanoseconds.
pub const TURNS: &str = "/tmp/turns";

/// A step, as a word on the command line names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VmmStep {
    /// `traced`: waits until a process has attached all of its BPF programs.
    Traced,
    /// `start`: starts the VMM, and waits until its guest was entered and left.
    Start,
    /// `run:MS`: lets this much time pass.
    Run(Duration),
    /// `undisturbed:CPU:MS`: polls on this CPU for this time.
    Undisturbed(u32, Duration),
    /// `exits:COUNT`: waits until KVM has counted this many more exits.
    Exits(u64),
    /// `quiet:MS`: waits until KVM has counted no exit for this time.
    Quiet(Duration),
    /// `waited:MS`: waits until a vCPU's thread has waited for a CPU for this much longer.
    Waited(Duration),
    /// `told:COUNT`, `told:COUNT:GUEST`: waits until COUNT commands of a lab's guest have ended.
    /// The first guest, 0, is the default.
    Reported(usize, u32),
    /// `looks:COUNT`: as `told`, for the first guest; reads the scheduler's counts of the first
    /// vCPU's thread meanwhile.
    Looks(usize),
    /// `stop`: SIGSTOP; done when no thread of the VMM is on a CPU.
    Stop,
    /// `cont`: SIGCONT.
    Continue,
    /// `read`: reads the kernel's counts, which are exact while the VMM is stopped.
    Read,
    /// `kill`: SIGKILL; done when the VMM has ended.
    Kill,
    /// `end`: waits until the VMM ends by itself.
    End,
    /// `hog:CPU`: starts a task of ordinary priority on this CPU that never sleeps.
    Hog(u32),
    /// `litter:CPU`: starts a task that mostly sleeps, and leaves deferred work to the kernel on
    /// this CPU.
    Litter(u32),
    /// `turns:CPU:BURST_US:EVERY_US`: starts a SCHED_FIFO task that burns BURST_US every EVERY_US
    /// on this CPU, and logs each burst to [`TURNS`].
    Turns(u32, Duration, Duration),
    /// `unhog`: ends all disturbers.
    Unhog,
    /// `migrate:TIMES:EVERY_US`: moves the thread of the first vCPU between CPUs 0 and 1, and reads
    /// its counts each time.
    Migrate(u32, Duration),
    /// `moves:COUNT:EVERY_US`: as `migrate`, until COUNT commands of the first guest have ended.
    Moves(usize, Duration),
    /// `pin:CPU`: pins the thread of the first vCPU to this CPU.
    Pin(u32),
    /// `fifo:PRIORITY`: runs every vCPU's thread at SCHED_FIFO.
    Fifo(i32),
    /// `vmm-fifo:PRIORITY`: runs every thread of the VMM at SCHED_FIFO.
    VmmFifo(i32),
    /// `calls:CPU`: starts tasks of ordinary priority on this CPU that make system calls and
    /// interrupts.
    Calls(u32),
    /// `stress-ng:CPU`: starts stress-ng on this CPU.
    StressNg(u32),
    /// `quota:QUOTA_US:PERIOD_US`: moves the VMM into a cgroup with this `cpu.max`.
    Quota(u32, u32),
    /// `untrace`: SIGINT to the processes that attached the BPF programs; done when they have
    /// ended.
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

/// Record of the steps that were done to one VMM.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Treatment {
    /// Process ID of the VMM.
    pub pid: u32,
    /// Output of the VMM, if its end was waited for.
    pub said: String,
    /// Steps in order.
    pub steps: Vec<CompletedStep>,
}

/// A step that was done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CompletedStep {
    /// Name of the step on the command line.
    pub step: String,
    /// Start, CLOCK_MONOTONIC in nanoseconds.
    pub begin_mono_ns: u64,
    /// End, CLOCK_MONOTONIC in nanoseconds.
    pub end_mono_ns: u64,
    /// Counts that `read` found.
    pub counts: Option<Counts>,
    /// Name that results must blame, `comm:pid`; for `hog`, `litter`, `calls` and `turns`.
    pub hog: Option<String>,
    /// Time for which nothing took the CPU from the poller; for `undisturbed`.
    pub undisturbed: Option<Duration>,
    /// Reads of the first vCPU's counts in order; for `looks`, `migrate` and `moves`.
    pub looks: Vec<ThreadSchedstat>,
}

/// Run delay of a vCPU's thread by the scheduler's count, and the time of the read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadSchedstat {
    /// Time before the read, by the guest's TSC: this machine's TSC with the offset that KVM
    /// reports in debugfs.
    pub begin_tsc: u64,
    /// Time after the read, by the guest's TSC.
    pub end_tsc: u64,
    /// Time runnable and waiting for a CPU, nanoseconds. A wait is counted when it ends
    /// (kernel/sched/stats.h, `sched_info_arrive`).
    pub run_delay_ns: u64,
}

/// Counts of the kernel.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Counts {
    /// KVM's own counters, summed over all vCPUs.
    pub kvm: BTreeMap<String, u64>,
    /// The scheduler's counts of each vCPU's thread.
    pub vcpus: Vec<VcpuCounts>,
    /// Throttled time of the cgroup of `quota`, nanoseconds (in steps of a microsecond).
    pub throttled_ns: Option<u64>,
}

/// The scheduler's counts of one vCPU's thread.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct VcpuCounts {
    /// Number of the vCPU.
    pub vcpu: u32,
    /// Thread ID.
    pub tid: u32,
    /// Time on a CPU, nanoseconds.
    pub on_cpu_ns: u64,
    /// Time runnable and waiting for a CPU, nanoseconds.
    pub run_delay_ns: u64,
    /// Number of times that it was moved to another CPU.
    pub migrations: u64,
}

impl Treatment {
    /// Returns all steps of this name in order.
    pub fn all(&self, step: &str) -> Vec<&CompletedStep> {
        self.steps.iter().filter(|done| done.step == step).collect()
    }

    /// Returns all reads of the first vCPU's counts in order.
    pub fn looks(&self) -> impl Iterator<Item = &ThreadSchedstat> {
        self.steps.iter().flat_map(|done| &done.looks)
    }

    /// Returns the results of all `read` steps in order.
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
