//! Run time and run delay of a command from /proc, for users who may not load BPF
//! (proc_pid_schedstat(5)).

use std::collections::HashMap;

use vmnoise_host::Host;

/// Sums over the threads of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FromProc {
    /// Number of threads seen.
    pub threads: u64,
    /// Whether the command was a single thread without children.
    pub is_alone: bool,
    /// Time the threads ran, in ns.
    pub ran_ns: u64,
    /// Time the threads waited for a CPU, in ns; threads of the command may have waited for each
    /// other.
    pub waited_ns: u64,
    /// Number of involuntary context switches.
    pub preemptions: u64,
    /// Steal time of all CPUs of this machine meanwhile, in ns, in steps of 10 ms; `None` if the
    /// hypervisor does not report steal time.
    pub machine_steal_ns: Option<u64>,
    /// Time for which a CPU quota throttled the command's control group or one above it, in ns. The
    /// time is a sum over CPUs and includes all other tasks of the group. `None` without a quota.
    pub throttled_ns: Option<u64>,
}

/// Counters of a thread at the last reading.
#[derive(Debug, Clone, Copy, Default)]
struct Last {
    ran_ns: u64,
    waited_ns: u64,
    preemptions: u64,
}

/// Reads the counters of a process, its threads and its children.
pub struct ProcessReader {
    host: Host,
    threads: HashMap<u32, Last>,
    /// Whether the command may have had children that were not seen.
    hides_children: bool,
    steal_before: Option<u64>,
    throttled_before: Option<u64>,
}

impl ProcessReader {
    /// Creates a reader. It must be created before the command starts.
    pub fn new() -> ProcessReader {
        let host = Host::here();
        ProcessReader {
            threads: HashMap::new(),
            hides_children: false,
            steal_before: host.steal_ns(),
            throttled_before: host.own_throttled_ns(),
            host,
        }
    }

    /// Reads the present counters.
    pub fn look(&mut self, pid: u32) {
        self.hides_children |= self.host.faults_of_children(pid).unwrap_or(0) > 0;
        let mut left = vec![pid];
        while let Some(pid) = left.pop() {
            for tid in self.host.thread_ids(pid) {
                self.look_at_thread(pid, tid);
                let children = self.host.children_of(pid, tid);
                // Without CONFIG_PROC_CHILDREN, children are not listed.
                self.hides_children |= children.is_none();
                left.extend(children.unwrap_or_default());
            }
        }
    }

    fn look_at_thread(&mut self, pid: u32, tid: u32) {
        if let Some(counters) = self.host.thread_counters(pid, tid) {
            let known = self.threads.entry(tid).or_default();
            known.ran_ns = counters.ran_ns;
            known.waited_ns = counters.waited_ns;
            known.preemptions = counters.preemptions.unwrap_or(known.preemptions);
        }
    }

    /// Returns the sums over all threads.
    pub fn finish(self) -> FromProc {
        let mut all = FromProc {
            threads: self.threads.len() as u64,
            is_alone: self.threads.len() == 1 && !self.hides_children,
            machine_steal_ns: self
                .steal_before
                .zip(self.host.steal_ns())
                .map(|(before, after)| after.saturating_sub(before)),
            throttled_ns: self
                .throttled_before
                .zip(self.host.own_throttled_ns())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_with_its_threads() {
        let mut reader = ProcessReader::new();
        reader.look(std::process::id());
        let found = reader.finish();
        assert!(found.threads >= 1 && found.ran_ns > 0, "{found:?}");
    }
}
