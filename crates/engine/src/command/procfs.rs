//! Run time and run delay of a command from /proc, for users who may not load BPF
//! (proc_pid_schedstat(5)).

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use vmnoise_views::FromProc;

/// Counters of a thread at the last reading.
#[derive(Debug, Clone, Copy, Default)]
struct Last {
    ran_ns: u64,
    waited_ns: u64,
    preemptions: u64,
}

/// Reads the counters of a process, its threads and its children.
pub struct ProcessReader {
    threads: HashMap<u32, Last>,
    /// Whether the command may have had children that were not seen.
    hides_children: bool,
    steal_before: Option<u64>,
    throttled_before: Option<u64>,
}

impl ProcessReader {
    /// Creates a reader. It must be created before the command starts.
    pub fn new() -> ProcessReader {
        ProcessReader {
            threads: HashMap::new(),
            hides_children: false,
            steal_before: steal_ticks(),
            throttled_before: throttled_ns(),
        }
    }

    /// Reads the present counters.
    pub fn look(&mut self, pid: u32) {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
        if let Some(faults) = stat.ok().as_deref().and_then(faults_of_children) {
            self.hides_children |= faults > 0;
        }
        let mut left = vec![pid];
        while let Some(pid) = left.pop() {
            let folder = format!("/proc/{pid}/task");
            let tasks = fs::read_dir(&folder).into_iter().flatten().flatten();
            for task in tasks {
                let Some(tid) = task.file_name().to_str().and_then(|it| it.parse().ok()) else {
                    continue;
                };
                let text = |file: &str| fs::read_to_string(task.path().join(file)).ok();
                if let Some(last) = text("schedstat").as_deref().and_then(schedstat) {
                    let status = text("status").unwrap_or_default();
                    let known = self.threads.entry(tid).or_default();
                    known.ran_ns = last.ran_ns;
                    known.waited_ns = last.waited_ns;
                    known.preemptions = preemptions(&status).unwrap_or(known.preemptions);
                }
                let children = text("children");
                // The file needs CONFIG_PROC_CHILDREN.
                self.hides_children |= children.is_none();
                let children = children.unwrap_or_default();
                left.extend(
                    children
                        .split_whitespace()
                        .filter_map(|it| it.parse::<u32>().ok()),
                );
            }
        }
    }

    /// Returns the sums over all threads.
    pub fn finish(self) -> FromProc {
        let mut all = FromProc {
            threads: self.threads.len() as u64,
            is_alone: self.threads.len() == 1 && !self.hides_children,
            machine_steal_ns: self
                .steal_before
                .zip(steal_ticks())
                .map(|(before, after)| after.saturating_sub(before) * 10_000_000),
            throttled_ns: self
                .throttled_before
                .zip(throttled_ns())
                .map(|(before, after)| after.saturating_sub(before)),
            ..FromProc::default()
        };
        for last in self.threads.values() {
            all.ran_ns += last.ran_ns;
            all.waited_ns += last.waited_ns;
            all.preemptions += last.preemptions;
        }
        all
    }
}

fn schedstat(text: &str) -> Option<Last> {
    let mut words = text.split_whitespace().map(str::parse);
    Some(Last {
        ran_ns: words.next()?.ok()?,
        waited_ns: words.next()?.ok()?,
        preemptions: 0,
    })
}

/// Returns the page faults of children that have ended and were waited for (`cminflt` of
/// proc_pid_stat(5)). A child cannot run without a fault, so 0 means no such child.
fn faults_of_children(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split_whitespace().nth(8)?.parse().ok()
}

fn preemptions(status: &str) -> Option<u64> {
    let mut lines = status.lines();
    let line = lines.find_map(|it| it.strip_prefix("nonvoluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}

/// Returns steal time so far, in ticks of 10 ms: the eighth number of the first line of /proc/stat
/// (proc_stat(5)). `None` if the number is 0: the machine then has no steal clock, or no steal
/// time.
fn steal_ticks() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let ticks: u64 = stat
        .lines()
        .next()?
        .split_whitespace()
        .nth(8)?
        .parse()
        .ok()?;
    (ticks > 0).then_some(ticks)
}

/// Returns the longest throttled time of this process's control group and the visible groups above
/// it (cpu.stat of cgroup v1 or v2).
fn throttled_ns() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let (folder, own) = groups.lines().find_map(with_quotas)?;
    let root = Path::new("/sys/fs/cgroup").join(folder);
    let above = Path::new(own).ancestors();
    let stats = above.filter_map(|it| fs::read_to_string(root.join(it).join("cpu.stat")).ok());
    let throttled = stats.filter_map(|it| throttled_in(&it));
    // Throttling by quotas at two levels overlaps, so the sum would count it twice.
    throttled.max()
}

/// Returns the folder where systemd mounts the hierarchy with quotas, and this process's group in
/// it. The line is `0::/GROUP`, or `NUMBER:cpu,cpuacct:/GROUP` if the controller is in a v1
/// hierarchy.
fn with_quotas(line: &str) -> Option<(&str, &str)> {
    let (controllers, own) = line.split_once(':')?.1.split_once(":/")?;
    let has_it = controllers.split(',').any(|it| it == "cpu");
    (controllers.is_empty() || has_it).then_some((controllers, own))
}

/// Returns the throttled time in ns; v2 has µs, v1 has ns.
fn throttled_in(stat: &str) -> Option<u64> {
    let of = |key: &str| {
        let mut lines = stat.lines();
        let line = lines.find_map(|it| it.strip_prefix(key))?;
        line.trim().parse::<u64>().ok()
    };
    of("throttled_usec ")
        .map(|us| us * 1_000)
        .or_else(|| of("throttled_time "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_read() {
        let last = schedstat("1200 340 7\n").unwrap();
        assert_eq!((last.ran_ns, last.waited_ns), (1_200, 340));
        assert!(schedstat("").is_none());
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t11\n";
        assert_eq!(preemptions(status), Some(11));
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 120 45 0 0 1 2";
        assert_eq!(faults_of_children(stat), Some(45));
        let stat = "usage_usec 12\nnr_throttled 3\nthrottled_usec 4500\n";
        assert_eq!(throttled_in(stat), Some(4_500_000));
        assert_eq!(throttled_in("usage_usec 12\n"), None);
        let first = "nr_periods 5\nnr_throttled 3\nthrottled_time 4500\n";
        assert_eq!(throttled_in(first), Some(4_500));
        assert_eq!(with_quotas("0::/a/b"), Some(("", "a/b")));
        assert_eq!(with_quotas("3:cpu,cpuacct:/a"), Some(("cpu,cpuacct", "a")));
        assert_eq!(with_quotas("4:cpuset:/a"), None);
    }

    #[test]
    fn this_process_is_found_with_its_threads() {
        let mut reader = ProcessReader::new();
        reader.look(std::process::id());
        let found = reader.finish();
        assert!(found.threads >= 1 && found.ran_ns > 0, "{found:?}");
    }
}
