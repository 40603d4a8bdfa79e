//! Cost of a measurement, from two sources. The scheduler knows when the vCPU's thread ran, and KVM
//! knows how it handled the guest's halts.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::super::stats::VcpuStat;
use super::super::vcpu::GuestVcpu;

/// Duration of a tick in /proc/stat, in nanoseconds (USER_HZ). The kernel's own tick may differ.
const TICK_NS: u64 = 10_000_000;

/// Times of a thread according to the scheduler, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Times {
    /// Duration of the measurement by CLOCK_MONOTONIC.
    pub wall_ns: u64,
    /// Time in which the thread ran on the CPU (CLOCK_THREAD_CPUTIME_ID).
    pub ran_ns: u64,
    /// Run delay: time in which the thread was runnable but other threads ran
    /// (/proc/TID/schedstat); `None` if this kernel does not count it.
    pub delayed_ns: Option<u64>,
    /// Time in which interrupts and the hypervisor below had the thread's CPU (/proc/stat, in ticks
    /// of 10 ms). On some kernels, this time is not part of any thread's CPU time. `None` if
    /// /proc/stat cannot be read.
    pub stolen_ns: Option<u64>,
}

impl Times {
    pub(super) fn since(&self, before: &Times) -> Times {
        Times {
            wall_ns: self.wall_ns - before.wall_ns,
            ran_ns: self.ran_ns - before.ran_ns,
            delayed_ns: difference(self.delayed_ns, before.delayed_ns),
            stolen_ns: difference(self.stolen_ns, before.stolen_ns),
        }
    }
}

/// KVM's own statistics of a vCPU's halts. A value is `None` if this kernel has no such statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Halts {
    /// Number of HLT exits.
    pub halts: Option<u64>,
    /// Number of halts in which KVM polled.
    pub polls: Option<u64>,
    /// Number of halts that ended while KVM was polling.
    pub polls_in_time: Option<u64>,
    /// Time in which KVM polled, in nanoseconds, whether or not the halt ended in this time.
    pub polled_ns: Option<u64>,
    /// Time between the end of polling and the end of the halt, in nanoseconds, summed over all
    /// halts in which the thread slept.
    pub slept_ns: Option<u64>,
}

impl Halts {
    pub(super) fn since(&self, before: &Halts) -> Halts {
        Halts {
            halts: difference(self.halts, before.halts),
            polls: difference(self.polls, before.polls),
            polls_in_time: difference(self.polls_in_time, before.polls_in_time),
            polled_ns: difference(self.polled_ns, before.polled_ns),
            slept_ns: difference(self.slept_ns, before.slept_ns),
        }
    }
}

fn difference(after: Option<u64>, before: Option<u64>) -> Option<u64> {
    after?.checked_sub(before?)
}

/// Readings of both sources at the same time.
#[derive(Debug, Clone, Copy)]
pub struct WitnessReading {
    pub times: Times,
    pub halts: Halts,
}

/// Open files of both sources. The vCPU's thread creates this value and reads the files.
#[derive(Debug)]
pub struct Witness {
    schedstat: Option<File>,
    stat: Option<File>,
    cpu: u32,
    halts: Option<VcpuStat>,
    polls: Option<VcpuStat>,
    polls_in_time: Option<VcpuStat>,
    polled_in_time: Option<VcpuStat>,
    polled_in_vain: Option<VcpuStat>,
    slept: Option<VcpuStat>,
}

impl Witness {
    pub fn new(vcpu: &GuestVcpu, cpu: u32) -> Witness {
        Witness {
            schedstat: File::open("/proc/thread-self/schedstat").ok(),
            stat: File::open("/proc/stat").ok(),
            cpu,
            halts: vcpu.stat("halt_exits"),
            polls: vcpu.stat("halt_attempted_poll"),
            polls_in_time: vcpu.stat("halt_successful_poll"),
            polled_in_time: vcpu.stat("halt_poll_success_ns"),
            polled_in_vain: vcpu.stat("halt_poll_fail_ns"),
            slept: vcpu.stat("halt_wait_ns"),
        }
    }

    pub fn look(&self) -> WitnessReading {
        let read = |stat: &Option<VcpuStat>| stat.as_ref()?.read();
        let polled_ns = read(&self.polled_in_time).zip(read(&self.polled_in_vain));
        WitnessReading {
            times: Times {
                wall_ns: now_ns(ClockId::Monotonic),
                ran_ns: now_ns(ClockId::ThreadCPUTime),
                delayed_ns: self.schedstat.as_ref().and_then(delayed_ns),
                stolen_ns: self
                    .stat
                    .as_ref()
                    .and_then(|file| stolen_ns(file, self.cpu)),
            },
            halts: Halts {
                halts: read(&self.halts),
                polls: read(&self.polls),
                polls_in_time: read(&self.polls_in_time),
                polled_ns: polled_ns.map(|(in_time, in_vain)| in_time + in_vain),
                slept_ns: read(&self.slept),
            },
        }
    }
}

fn now_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Returns the second number of a thread's schedstat, its run delay in nanoseconds
/// (Documentation/scheduler/sched-stats.rst).
fn delayed_ns(file: &File) -> Option<u64> {
    let mut text = [0; 128];
    let len = file.read_at(&mut text, 0).ok()?;
    let text = str::from_utf8(&text[..len]).ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

/// Reads the file only up to the line of this CPU, because a long rest may follow.
fn stolen_ns(file: &File, cpu: u32) -> Option<u64> {
    let (mut text, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let len = file.read_at(&mut part, text.len() as u64).ok()?;
        text.extend_from_slice(&part[..len]);
        let whole = str::from_utf8(&text).ok()?;
        let is_last = len == 0 || whole.contains("\nintr ");
        if let Some(stolen_ns) = stolen_of(whole, cpu) {
            return Some(stolen_ns);
        }
        if is_last {
            return None;
        }
    }
}

/// Returns the sum of `irq`, `softirq` and `steal` in the line of this CPU, in nanoseconds; `None`
/// if the line is missing or incomplete.
fn stolen_of(stat: &str, cpu: u32) -> Option<u64> {
    let name = format!("cpu{cpu} ");
    let (before, line) = stat.split_once(&name)?;
    if !before.is_empty() && !before.ends_with('\n') {
        return None;
    }
    let (line, _) = line.split_once('\n')?;
    let ticks = line.split(' ').map(str::parse::<u64>);
    let ticks: Vec<u64> = ticks.collect::<Result<_, _>>().ok()?;
    Some(ticks.get(5..8)?.iter().sum::<u64>() * TICK_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n\
                        cpu10 1 1 1 1 1 1 1 1 0 0\ncpu1 0 0 0 0 0 20 30 40 0 0\nintr 5 0\n";

    #[test]
    fn what_was_stolen_from_a_cpu_is_read_from_its_own_line() {
        assert_eq!(stolen_of(STAT, 0), Some(21 * TICK_NS));
        assert_eq!(stolen_of(STAT, 1), Some(90 * TICK_NS));
        assert_eq!(stolen_of(STAT, 10), Some(3 * TICK_NS));
        assert_eq!(stolen_of(STAT, 2), None);
        // The line of the CPU is incomplete.
        assert_eq!(stolen_of("cpu0 1 2 3 4 5 6 7 8", 0), None);
        assert!(stolen_ns(&File::open("/proc/stat").unwrap(), 0).is_some());
    }

    #[test]
    fn what_is_unknown_before_or_after_stays_unknown() {
        assert_eq!(difference(Some(5), Some(3)), Some(2));
        assert_eq!(difference(None, Some(3)), None);
        assert_eq!(difference(Some(5), None), None);
        // The statistics were reset between the two readings.
        assert_eq!(difference(Some(1), Some(3)), None);
    }
}
