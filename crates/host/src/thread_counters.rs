//! Counters of the threads of a process, and the children of these threads (proc_pid(5)).

use super::Host;

/// Counters of a thread since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadCounters {
    /// Time the thread ran, in nanoseconds.
    pub ran_ns: u64,
    /// Time the thread waited for a CPU, in nanoseconds.
    pub waited_ns: u64,
    /// Number of involuntary context switches; `None` if the kernel does not report it.
    pub preemptions: Option<u64>,
}

impl Host {
    /// Returns the ids of all threads of a process; empty if the process has ended.
    pub fn thread_ids(&self, pid: u32) -> Vec<u32> {
        let tids = self.numbers_in(&format!("proc/{pid}/task"));
        tids.unwrap_or_default()
    }

    /// Returns the counters of a thread. `None` if the thread has ended, or if the kernel does not
    /// count run time and run delay (CONFIG_SCHED_INFO).
    pub fn thread_counters(&self, pid: u32, tid: u32) -> Option<ThreadCounters> {
        let text = |file: &str| self.text(&format!("proc/{pid}/task/{tid}/{file}"));
        let schedstat = text("schedstat").ok()?;
        let mut numbers = schedstat.split_whitespace().map(str::parse);
        let status = text("status").unwrap_or_default();
        Some(ThreadCounters {
            ran_ns: numbers.next()?.ok()?,
            waited_ns: numbers.next()?.ok()?,
            preemptions: preemptions(&status),
        })
    }

    /// Returns the processes that this thread has started and that still run. `None` if the thread
    /// has ended, or if the kernel does not list children (CONFIG_PROC_CHILDREN).
    pub fn children_of(&self, pid: u32, tid: u32) -> Option<Vec<u32>> {
        let children = self.text(&format!("proc/{pid}/task/{tid}/children"));
        let children = children.ok()?;
        let pids = children.split_whitespace();
        Some(pids.filter_map(|pid| pid.parse().ok()).collect())
    }

    /// Returns the number of page faults of children that have ended and were waited for
    /// (`cminflt` of proc_pid_stat(5)). A child cannot run without a fault, so 0 means no such
    /// child. `None` if the process has ended.
    pub fn faults_of_children(&self, pid: u32) -> Option<u64> {
        let stat = self.text(&format!("proc/{pid}/stat")).ok()?;
        let (_, fields) = stat.rsplit_once(") ")?;
        fields.split_whitespace().nth(8)?.parse().ok()
    }
}

fn preemptions(status: &str) -> Option<u64> {
    let mut lines = status.lines();
    let number = lines.find_map(|it| it.strip_prefix("nonvoluntary_ctxt_switches:"))?;
    number.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::tree;

    #[test]
    fn a_thread_is_read() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t11\n";
        let (_root, host) = tree(&[
            ("proc/7/task/7/schedstat", "1200 340 7\n"),
            ("proc/7/task/7/status", status),
            ("proc/7/task/8/schedstat", "5 6 7\n"),
            ("proc/7/task/9/schedstat", ""),
        ]);
        let first = ThreadCounters {
            ran_ns: 1_200,
            waited_ns: 340,
            preemptions: Some(11),
        };
        assert_eq!(host.thread_counters(7, 7), Some(first));
        assert_eq!(host.thread_counters(7, 8).unwrap().preemptions, None);
        assert_eq!(host.thread_counters(7, 9), None);
        assert_eq!(host.thread_counters(7, 10), None);
        let mut tids = host.thread_ids(7);
        tids.sort_unstable();
        assert_eq!(tids, [7, 8, 9]);
        assert!(host.thread_ids(8).is_empty());
    }

    #[test]
    fn children_that_run_are_listed_and_those_that_ended_leave_faults() {
        let (_root, host) = tree(&[
            ("proc/7/task/7/children", "12 13 "),
            ("proc/7/task/8/children", ""),
            (
                "proc/7/stat",
                "7 (a) b) S 1 7 7 0 -1 4194304 120 45 0 0 1 2",
            ),
        ]);
        assert_eq!(host.children_of(7, 7), Some(vec![12, 13]));
        assert_eq!(host.children_of(7, 8), Some(vec![]));
        assert_eq!(host.children_of(7, 9), None);
        assert_eq!(host.faults_of_children(7), Some(45));
        assert_eq!(host.faults_of_children(8), None);
    }
}
