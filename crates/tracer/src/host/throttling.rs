//! What could keep a runnable thread off an idle CPU.

use super::Host;

/// The scheduler's limits on real-time tasks. They say what may happen; what did
/// happen is witnessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttling {
    /// Time real-time tasks may use of each period, in µs; -1 is no limit. `None`
    /// where the kernel does not say.
    pub rt_runtime_us: Option<i64>,
    /// That period, in µs.
    pub rt_period_us: Option<i64>,
    /// Whether a deadline server keeps time for other tasks (6.12 and later, visible
    /// in debugfs); `None` where debugfs is not mounted or the kernel has none.
    pub fair_server: Option<bool>,
}

impl Host {
    /// Reads the limits on real-time tasks.
    pub fn throttling(&self) -> Throttling {
        let number = |file: &str| self.line(file).ok()?.parse::<i64>().ok();
        Throttling {
            rt_runtime_us: number("proc/sys/kernel/sched_rt_runtime_us"),
            rt_period_us: number("proc/sys/kernel/sched_rt_period_us"),
            fair_server: number("sys/kernel/debug/sched/fair_server/cpu0/runtime")
                .map(|runtime_ns| runtime_ns > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::tree;
    use super::*;

    #[test]
    fn reads_what_is_there() {
        let (_root, host) = tree(&[
            ("proc/sys/kernel/sched_rt_runtime_us", "-1\n"),
            (
                "sys/kernel/debug/sched/fair_server/cpu0/runtime",
                "50000000\n",
            ),
        ]);
        let expected = Throttling {
            rt_runtime_us: Some(-1),
            rt_period_us: None,
            fair_server: Some(true),
        };
        assert_eq!(host.throttling(), expected);
    }
}
