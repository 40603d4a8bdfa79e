//! Steal time since boot, from /proc/stat (proc_stat(5)).

use std::collections::BTreeMap;

use super::Host;

/// Duration of a tick of /proc/stat in nanoseconds (USER_HZ is 100 on x86 and arm64).
const TICK_NS: u64 = 10_000_000;

impl Host {
    /// Returns the steal time of each CPU since boot, in nanoseconds; empty if /proc/stat cannot be
    /// read. On bare metal the values stay 0.
    pub fn cpu_steal_ns(&self) -> BTreeMap<u32, u64> {
        let stat = self.text("proc/stat").unwrap_or_default();
        let of_cpu = |line: &str| {
            let (cpu, _) = line.strip_prefix("cpu")?.split_once(' ')?;
            // The first line has the sum of all CPUs. It has no CPU number, so it is skipped here.
            Some((cpu.parse().ok()?, steal_ns(line)?))
        };
        stat.lines().filter_map(of_cpu).collect()
    }

    /// Returns the steal time of all CPUs since boot, in nanoseconds. `None` if it is 0: the machine
    /// then has no steal clock, or no steal time.
    pub fn steal_ns(&self) -> Option<u64> {
        let stat = self.text("proc/stat").ok()?;
        steal_ns(stat.lines().next()?).filter(|ns| *ns > 0)
    }
}

/// Returns the steal time in a line of /proc/stat: the eighth number.
fn steal_ns(line: &str) -> Option<u64> {
    let ticks: u64 = line.split_whitespace().nth(8)?.parse().ok()?;
    Some(ticks * TICK_NS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::tree;

    fn with(stat: &str) -> (BTreeMap<u32, u64>, Option<u64>) {
        let (_root, host) = tree(&[("proc/stat", stat)]);
        (host.cpu_steal_ns(), host.steal_ns())
    }

    #[test]
    fn steal_is_the_eighth_figure_of_each_cpu() {
        let stat = "cpu  9 8 7 6 5 4 3 83 1 0\n\
                    cpu0 1 2 3 4 5 6 7 80 9 0\n\
                    cpu11 1 2 3 4 5 6 7 3 9 0\n\
                    intr 5 6\n";
        let cpus = BTreeMap::from([(0, 800_000_000), (11, 30_000_000)]);
        assert_eq!(with(stat), (cpus, Some(830_000_000)));
    }

    #[test]
    fn a_machine_without_steal_time_has_no_sum() {
        let stat = "cpu  9 8 7 6 5 4 3 0 1 0\ncpu0 1 2 3 4 5 6 7 0 9 0\n";
        assert_eq!(with(stat), (BTreeMap::from([(0, 0)]), None));
        assert_eq!(with("cpu0 1 2 3\n"), (BTreeMap::new(), None));
        assert_eq!(with(""), (BTreeMap::new(), None));
    }
}
