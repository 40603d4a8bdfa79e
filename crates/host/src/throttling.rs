//! Limits that could keep a runnable thread from an idle CPU.

use super::Host;

/// The scheduler's limits on real-time tasks. They show what may happen. Probes show what did
/// happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttling {
    /// Time that real-time tasks may use in each period, in µs; -1: no limit. `None` if the kernel
    /// does not report it.
    pub rt_runtime_us: Option<i64>,
    /// Length of this period, in µs.
    pub rt_period_us: Option<i64>,
    /// Time that a deadline server keeps for other tasks of the first CPU (6.12 and later, in
    /// debugfs); `None` if debugfs is not mounted, or if the kernel has none.
    pub fair_server: Option<FairServer>,
}

/// Time that ordinary tasks get although real-time tasks want the CPU. This time does not depend on
/// `sched_rt_runtime_us`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FairServer {
    /// Nanoseconds in each period; 0: none.
    pub runtime_ns: i64,
    /// Length of this period, in ns.
    pub period_ns: i64,
}

impl Host {
    /// Reads the limits on real-time tasks.
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
