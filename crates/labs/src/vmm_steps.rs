//! What `lab-vmm` does to a VMM, and the record it keeps of that for tests.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// Begin and end of each burst of `turns`, CLOCK_MONOTONIC of its machine in nanoseconds, a line
/// each.
pub const TURNS: &str = "/tmp/turns";

/// One thing that is done, as words of a command line name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// `traced`: waits until somebody's BPF programs are attached, all of them.
    Traced,
    /// `start`: starts the VMM, and waits until its guest was entered and left.
    Start,
    /// `run:MS`: lets this much time pass.
    Run(Duration),
    /// `undisturbed:CPU:MS`: polls on this CPU for so long.
    Undisturbed(u32, Duration),
    /// `exits:COUNT`: waits until KVM has counted so many exits more.
    Exits(u64),
    /// `quiet:MS`: waits until KVM has counted no exit for so long.
    Quiet(Duration),
    /// `waited:MS`: waits until a vCPU's thread has waited for a CPU that much longer.
    Waited(Duration),
    /// `told:COUNT`, `told:COUNT:GUEST`: waits until so many commands of the lab's guest have
    /// ended; of the first, which is 0, where no other is meant.
    Reported(usize, u32),
    /// `looks:COUNT`: waits for the first guest, and looks at the first vCPU's thread meanwhile.
    Looks(usize),
    /// `stop`: SIGSTOP; over when no thread of the VMM is on a CPU any more.
    Stop,
    /// `cont`: SIGCONT.
    Continue,
    /// `read`: reads the kernel's counts. Exact while the VMM is stopped.
    Read,
    /// `kill`: SIGKILL; over when the VMM is gone.
    Kill,
    /// `end`: waits for the VMM's own end.
    End,
    /// `hog:CPU`: a task of ordinary priority that never sleeps, on this CPU.
    Hog(u32),
    /// `litter:CPU`: a task that mostly sleeps, and leaves the kernel work on this CPU.
    Litter(u32),
    /// `turns:CPU:BURST_US:EVERY_US`: a task at SCHED_FIFO that burns a burst that often on
    /// this CPU, and logs each to [`TURNS`].
    Turns(u32, Duration, Duration),
    /// `unhog`: ends any of them.
    Unhog,
    /// `migrate:TIMES:EVERY_US`: moves the thread of the first vCPU between CPUs 0 and 1, and
    /// looks at it each time.
    Migrate(u32, Duration),
    /// `moves:COUNT:EVERY_US`: the same, until so many commands of the first guest have ended.
    Moves(usize, Duration),
    /// `pin:CPU`: keeps the thread of the first vCPU on this CPU.
    Pin(u32),
    /// `fifo:PRIORITY`: every vCPU's thread at SCHED_FIFO.
    Fifo(i32),
    /// `vmm-fifo:PRIORITY`: every thread of the VMM at SCHED_FIFO.
    VmmFifo(i32),
    /// `calls:CPU`: tasks of ordinary priority that make system calls and interrupts, on this CPU.
    Calls(u32),
    /// `stress-ng:CPU`: stress-ng, on this CPU.
    StressNg(u32),
    /// `quota:QUOTA_US:PERIOD_US`: `cpu.max` of a control group that holds the VMM.
    Quota(u32, u32),
    /// `untrace`: SIGINT to whoever attached the BPF programs; over when they have ended.
    Untrace,
}

impl Step {
    /// Reads one.
    ///
    /// # Errors
    /// If there is none of this name, or its numbers are none.
    pub fn from_word(word: &str) -> Result<Step> {
        let number = |text: &str| text.parse::<u32>().with_context(|| format!("in `{word}`"));
        let parts: Vec<&str> = word.split(':').collect();
        Ok(match parts[..] {
            ["traced"] => Step::Traced,
            ["start"] => Step::Start,
            ["run", ms] => Step::Run(Duration::from_millis(number(ms)?.into())),
            ["undisturbed", cpu, ms] => {
                let time = Duration::from_millis(number(ms)?.into());
                Step::Undisturbed(number(cpu)?, time)
            }
            ["exits", count] => Step::Exits(number(count)?.into()),
            ["quiet", ms] => Step::Quiet(Duration::from_millis(number(ms)?.into())),
            ["waited", ms] => Step::Waited(Duration::from_millis(number(ms)?.into())),
            ["told", count] => Step::Reported(number(count)? as usize, 0),
            ["told", count, guest] => Step::Reported(number(count)? as usize, number(guest)?),
            ["looks", count] => Step::Looks(number(count)? as usize),
            ["stop"] => Step::Stop,
            ["cont"] => Step::Continue,
            ["read"] => Step::Read,
            ["kill"] => Step::Kill,
            ["end"] => Step::End,
            ["hog", cpu] => Step::Hog(number(cpu)?),
            ["litter", cpu] => Step::Litter(number(cpu)?),
            ["turns", cpu, burst, every] => {
                let us = |text| Ok::<_, anyhow::Error>(Duration::from_micros(number(text)?.into()));
                Step::Turns(number(cpu)?, us(burst)?, us(every)?)
            }
            ["unhog"] => Step::Unhog,
            ["migrate", times, us] => {
                let every = Duration::from_micros(number(us)?.into());
                Step::Migrate(number(times)?, every)
            }
            ["moves", count, us] => {
                let every = Duration::from_micros(number(us)?.into());
                Step::Moves(number(count)? as usize, every)
            }
            ["pin", cpu] => Step::Pin(number(cpu)?),
            ["fifo", priority] => Step::Fifo(number(priority)?.cast_signed()),
            ["vmm-fifo", priority] => Step::VmmFifo(number(priority)?.cast_signed()),
            ["calls", cpu] => Step::Calls(number(cpu)?),
            ["stress-ng", cpu] => Step::StressNg(number(cpu)?),
            ["quota", quota, period] => Step::Quota(number(quota)?, number(period)?),
            ["untrace"] => Step::Untrace,
            _ => bail!("no step is called `{word}`"),
        })
    }
}

/// What was done to one VMM.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Treatment {
    /// Its process.
    pub pid: u32,
    /// What it printed, where it was waited for.
    pub said: String,
    /// Everything in its order.
    pub steps: Vec<Done>,
}

/// One step that was done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Done {
    /// The word of the command line.
    pub step: String,
    /// When it began, CLOCK_MONOTONIC in nanoseconds.
    pub begin_mono_ns: u64,
    /// When it was over, CLOCK_MONOTONIC in nanoseconds.
    pub end_mono_ns: u64,
    /// Of `read`: what was counted by then.
    pub counts: Option<Counts>,
    /// Of `hog`, `litter`, `calls` and `turns`: the name that results must blame, `comm:pid`.
    pub hog: Option<String>,
    /// Of `undisturbed`: how long nothing took the CPU from the poller.
    pub undisturbed: Option<Duration>,
    /// Of `looks`, `migrate` and `moves`: what was seen, in its order.
    pub looks: Vec<Look>,
}

/// What the scheduler had booked for the thread of a vCPU, and when that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// Before it was read, by the guest's TSC: this machine's with the offset that KVM reports
    /// in debugfs.
    pub begin_tsc: u64,
    /// After it was read, by the same.
    pub end_tsc: u64,
    /// Time runnable and waiting for a CPU, nanoseconds; a wait is booked when it is over
    /// (kernel/sched/stats.h, `sched_info_arrive`).
    pub run_delay_ns: u64,
}

/// What the kernel had counted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Counts {
    /// KVM's own counters, all vCPUs together.
    pub kvm: BTreeMap<String, u64>,
    /// What the scheduler keeps of each vCPU's thread.
    pub vcpus: Vec<VcpuCounts>,
    /// Of the control group of `quota`, how long it was throttled, nanoseconds (in steps
    /// of a microsecond).
    pub throttled_ns: Option<u64>,
}

/// What the scheduler keeps of one vCPU's thread.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct VcpuCounts {
    /// The number of the vCPU.
    pub vcpu: u32,
    /// Its thread.
    pub tid: u32,
    /// Time on a CPU, nanoseconds.
    pub on_cpu_ns: u64,
    /// Time runnable and waiting for a CPU, nanoseconds.
    pub run_delay_ns: u64,
    /// How often it was moved to another CPU.
    pub migrations: u64,
}

impl Treatment {
    /// All that was done under this word, in its order.
    pub fn all(&self, step: &str) -> Vec<&Done> {
        self.steps.iter().filter(|done| done.step == step).collect()
    }

    /// What was seen of the first vCPU, in its order.
    pub fn looks(&self) -> impl Iterator<Item = &Look> {
        self.steps.iter().flat_map(|done| &done.looks)
    }

    /// What was read, in its order.
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
        let quota = Step::from_word("quota:5000:10000").unwrap();
        assert_eq!(quota, Step::Quota(5_000, 10_000));
        assert_eq!(Step::from_word("stop").unwrap(), Step::Stop);
        for wrong in ["", "stop:1", "run", "run:soon", "migrate:3"] {
            assert!(Step::from_word(wrong).is_err(), "{wrong}");
        }
    }
}
