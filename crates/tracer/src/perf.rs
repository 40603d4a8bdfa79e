//! A perf event in counting mode, without sampling (perf_event_open(2)).

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use vmnoise_host::PmuEvent;

/// The tasks and CPUs whose events a counter counts.
#[derive(Debug, Clone, Copy)]
pub enum CountedEvents<'a> {
    /// All tasks and interrupts on this CPU.
    Cpu(u32),
    /// Programs that the calling thread starts after opening the counter, including their child
    /// processes.
    NextPrograms {
        /// Leader of the counter's group; both count at the same times. `None` if this counter is
        /// the leader.
        beside: Option<&'a Counter>,
        /// Whether only the programs' own code is counted. Otherwise the kernel's work for them and
        /// the interrupts during it are counted too.
        own_code: bool,
    },
}

/// A running counter.
#[derive(Debug)]
pub struct Counter(File);

/// A reading of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Number of events in the time in which the counter was running.
    pub events: u64,
    /// Time in which the counter was enabled, in ns summed over all threads or CPUs.
    pub enabled_ns: u64,
    /// Time in which the counter was running, in ns. It is shorter than the enabled time if more
    /// events are requested than the CPU has counters.
    pub running_ns: u64,
}

impl Count {
    /// Returns the difference between this reading and an earlier reading.
    pub fn since(&self, before: &Count) -> Count {
        Count {
            events: self.events.saturating_sub(before.events),
            enabled_ns: self.enabled_ns.saturating_sub(before.enabled_ns),
            running_ns: self.running_ns.saturating_sub(before.running_ns),
        }
    }

    /// Returns the number of events per ns of running time; `None` if the running time is 0. Rates
    /// can be compared even if their counters were read one after the other.
    pub fn rate(&self) -> Option<f64> {
        (self.running_ns > 0).then(|| self.events as f64 / self.running_ns as f64)
    }
}

/// Size of `struct perf_event_attr` in its first version (PERF_ATTR_SIZE_VER0).
const SIZE: u64 = 64;
/// `read_format`: PERF_FORMAT_TOTAL_TIME_ENABLED and PERF_FORMAT_TOTAL_TIME_RUNNING.
const WITH_TIMES: u64 = 0b11;
/// Flags of `struct perf_event_attr`, in the order of its header.
const DISABLED: u64 = 1 << 0;
const INHERIT: u64 = 1 << 1;
const NOT_OF_KERNEL: u64 = 1 << 5;
const NOT_OF_HYPERVISOR: u64 = 1 << 6;
const ENABLE_ON_EXEC: u64 = 1 << 12;
/// PERF_FLAG_FD_CLOEXEC.
const CLOSE_ON_EXEC: u64 = 1 << 3;

impl Counter {
    /// Starts a counter.
    ///
    /// # Errors
    /// The kernel's error. ENOENT: the CPU does not have this event. EACCES: this process has no
    /// right to count it.
    pub fn open(event: PmuEvent, counted: CountedEvents<'_>) -> io::Result<Counter> {
        let (pid, cpu, beside, flags) = match counted {
            CountedEvents::Cpu(cpu) => (-1, i64::from(cpu), None, 0),
            CountedEvents::NextPrograms { beside, own_code } => {
                // A counter with a leader is enabled together with its leader.
                let waits = beside.map_or(DISABLED | ENABLE_ON_EXEC, |_| 0);
                let not_of = match own_code {
                    true => NOT_OF_KERNEL | NOT_OF_HYPERVISOR,
                    false => 0,
                };
                (0, -1, beside, INHERIT | waits | not_of)
            }
        };
        let beside = beside.map_or(-1, |leader| leader.0.as_raw_fd());
        let attributes = [
            u64::from(event.pmu) | SIZE << 32,
            event.config,
            0,
            0,
            WITH_TIMES,
            flags,
            0,
            0,
        ];
        // SAFETY: `attributes` lives until the call returns, and has the size that it states. The
        // other arguments are plain numbers. The result is an error, or a descriptor that no other
        // code owns.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                attributes.as_ptr(),
                pid,
                cpu,
                beside,
                CLOSE_ON_EXEC,
            )
        };
        let fd = i32::try_from(fd).unwrap_or(-1);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        Ok(Counter(unsafe { OwnedFd::from_raw_fd(fd) }.into()))
    }

    /// Returns the count since the start of the counter.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn read(&self) -> io::Result<Count> {
        let mut words = [0; 3 * 8];
        (&self.0).read_exact(&mut words)?;
        let mut words = words.as_chunks::<8>().0.iter();
        let mut next = || words.next().map_or(0, |word| u64::from_ne_bytes(*word));
        Ok(Count {
            events: next(),
            enabled_ns: next(),
            running_ns: next(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    mod root {
        use std::process::Command;

        use super::*;
        use vmnoise_host::Host;

        /// Returns an event of type PERF_TYPE_SOFTWARE. Every kernel counts these events.
        fn software(config: u64) -> PmuEvent {
            PmuEvent { pmu: 1, config }
        }
        const TASK_CLOCK: u64 = 1;
        const CONTEXT_SWITCHES: u64 = 3;

        /// The events `tsc` and `smi` are in the same PMU. Every x86 CPU counts `tsc`.
        #[test]
        fn a_counter_of_the_msr_pmu_counts_on_its_cpu() {
            let event = Host::here().msr_event("tsc").unwrap();
            let counter = Counter::open(event, CountedEvents::Cpu(0)).unwrap();
            let first = counter.read().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(10));
            assert!(counter.read().unwrap().events > first.events + 1_000_000);
            assert!(Counter::open(event, CountedEvents::Cpu(1 << 20)).is_err());
        }

        /// perf(1) starts its counters at the exec too. bash reports the CPU time that its children
        /// used.
        #[test]
        fn programs_are_counted_from_their_exec_on_with_all_that_they_start() {
            let of = |beside| CountedEvents::NextPrograms {
                beside,
                own_code: false,
            };
            let clock = Counter::open(software(TASK_CLOCK), of(None)).unwrap();
            let switches = Counter::open(software(CONTEXT_SWITCHES), of(Some(&clock))).unwrap();
            // The work of this process is not counted.
            let begin = std::time::Instant::now();
            while begin.elapsed().as_millis() < 20 {}
            assert_eq!(clock.read().unwrap(), Count::default());

            let count = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
            let script = format!("({count}) & {count}; sleep 0.01; wait; times");
            let output = Command::new("bash").args(["-c", &script]).output().unwrap();
            let said = String::from_utf8(output.stdout).unwrap();
            // Format of `times`: `0m1.234s 0m0.012s` has user and system time, first of the shell
            // and then of its children.
            let used_ms: f64 = said
                .split_whitespace()
                .map(|word| {
                    let (minutes, seconds) = word.trim_end_matches('s').split_once('m').unwrap();
                    let [minutes, seconds] =
                        [minutes, seconds].map(|it| it.parse::<f64>().unwrap());
                    (minutes * 60.0 + seconds) * 1e3
                })
                .sum();
            let counted_ms = clock.read().unwrap().events as f64 / 1e6;
            // `times` rounds each of four numbers to 1 ms. bash itself needs some ms before its
            // exec and after `times`. Without the parent or a child, half of the time would be
            // missing.
            assert!(used_ms > 50.0, "{said}");
            let ratio = counted_ms / used_ms;
            assert!(
                (0.8..1.25).contains(&ratio),
                "{counted_ms} ms of {used_ms} ms"
            );
            assert!(switches.read().unwrap().events > 0);
        }
    }
}
