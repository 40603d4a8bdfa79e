//! Limits that can keep a runnable thread from running on an idle CPU.

use super::Host;

/// Limits of the scheduler for real-time tasks. They show only which throttling is possible; probes
/// show which throttling occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttling {
    /// Time that real-time tasks may use in each period, in microseconds; -1 means no limit. `None`
    /// if the kernel does not report the limit.
    pub rt_runtime_us: Option<i64>,
    /// Duration of the period, in microseconds; `None` if the kernel does not report it.
    pub rt_period_us: Option<i64>,
    /// Deadline server of CPU 0 for ordinary tasks (Linux 6.12 and later, in debugfs). `None` if
    /// debugfs is not mounted, or if the kernel has no such server.
    pub fair_server: Option<FairServer>,
}

/// CPU time that ordinary tasks get even if real-time tasks want the CPU. `sched_rt_runtime_us`
/// does not affect this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FairServer {
    /// CPU time for ordinary tasks in each period, in nanoseconds; 0 if the server is off.
    pub runtime_ns: i64,
    /// Duration of the period, in nanoseconds.
    pub period_ns: i64,
}

impl Host {
    /// Returns the scheduler's limits for real-time tasks.
    pub fn throttling(&self) -> Throttling {
        let number = |file: &str| self.line(file).ok()?.parse::<i64>().ok();
        let server =
            |file: &str| number(&format!("sys/kernel/debug/sched/fair_server/cpu0/{file}"));
        Throttling {
            rt_runtime_us: number("proc/sys/kernel/sched_rt_runtime_us"),
            rt_period_us: number("proc/sys/kernel/sched_rt_period_us"),
            fair_server: server("runtime")
                .zip(server("period"))
                .map(|(runtime_ns, period_ns)| FairServer {
                    runtime_ns,
                    period_ns,
                }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::tree;

    #[test]
    fn reads_what_is_there() {
        let (_root, host) = tree(&[
            ("proc/sys/kernel/sched_rt_runtime_us", "-1\n"),
            (
                "sys/kernel/debug/sched/fair_server/cpu0/runtime",
                "50000000\n",
            ),
            (
                "sys/kernel/debug/sched/fair_server/cpu0/period",
                "1000000000\n",
            ),
        ]);
        let expected = Throttling {
            rt_runtime_us: Some(-1),
            rt_period_us: None,
            fair_server: Some(FairServer {
                runtime_ns: 50_000_000,
                period_ns: 1_000_000_000,
            }),
        };
        assert_eq!(host.throttling(), expected);
    }
}
