//! Time for which CPU quotas throttled this process's control groups.

use std::fs;
use std::path::Path;

use super::Host;

/// Folder where the hierarchies of control groups are mounted.
const CGROUPS: &str = "sys/fs/cgroup";

impl Host {
    /// Returns the longest throttled time of this process's control group and the visible groups
    /// above it, in nanoseconds (`cpu.stat` of control groups of version 1 or 2). `None` without a
    /// quota.
    pub fn own_throttled_ns(&self) -> Option<u64> {
        let groups = self.text("proc/self/cgroup").ok()?;
        let (folder, own) = groups.lines().find_map(with_quotas)?;
        let hierarchy = self.root.join(CGROUPS).join(folder);
        let above = Path::new(own).ancestors();
        let files = above.map(|group| hierarchy.join(group).join("cpu.stat"));
        let stats = files.filter_map(|file| fs::read_to_string(file).ok());
        // Throttling by quotas at two levels overlaps, so the sum would count it twice.
        stats.filter_map(|stat| throttled_ns(&stat)).max()
    }
}

/// Returns the folder where systemd mounts the hierarchy with quotas, and this process's group in
/// it. The line is `0::/GROUP`, or `NUMBER:cpu,cpuacct:/GROUP` if the controller is in a hierarchy
/// of version 1.
fn with_quotas(line: &str) -> Option<(&str, &str)> {
    let (controllers, own) = line.split_once(':')?.1.split_once(":/")?;
    let has_it = controllers.split(',').any(|it| it == "cpu");
    (controllers.is_empty() || has_it).then_some((controllers, own))
}

/// Returns the throttled time in nanoseconds. Version 2 has microseconds, and version 1 has
/// nanoseconds.
fn throttled_ns(stat: &str) -> Option<u64> {
    let number = |key: &str| {
        let mut lines = stat.lines();
        let number = lines.find_map(|it| it.strip_prefix(key))?;
        number.trim().parse::<u64>().ok()
    };
    let us = number("throttled_usec ");
    us.map(|us| us * 1_000).or_else(|| number("throttled_time "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::tree;

    #[test]
    fn the_longest_throttling_of_a_group_and_those_above_counts() {
        let (_root, host) = tree(&[
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/cpu.stat", "usage_usec 12\n"),
            (
                "sys/fs/cgroup/a/cpu.stat",
                "usage_usec 12\nnr_throttled 3\nthrottled_usec 4500\n",
            ),
            ("sys/fs/cgroup/a/b/cpu.stat", "throttled_usec 44\n"),
        ]);
        assert_eq!(host.own_throttled_ns(), Some(4_500_000));
    }

    #[test]
    fn the_first_version_counts_nanoseconds_in_a_hierarchy_for_cpus() {
        let (_root, host) = tree(&[
            ("proc/self/cgroup", "4:cpuset:/x\n3:cpu,cpuacct:/a\n0::/\n"),
            (
                "sys/fs/cgroup/cpu,cpuacct/a/cpu.stat",
                "nr_periods 5\nnr_throttled 3\nthrottled_time 4500\n",
            ),
        ]);
        assert_eq!(host.own_throttled_ns(), Some(4_500));
    }

    #[test]
    fn without_a_quota_there_is_no_time() {
        let (_root, host) = tree(&[
            ("proc/self/cgroup", "0::/a\n"),
            ("sys/fs/cgroup/a/cpu.stat", "usage_usec 12\n"),
        ]);
        assert_eq!(host.own_throttled_ns(), None);
        assert_eq!(tree(&[]).1.own_throttled_ns(), None);
    }
}
