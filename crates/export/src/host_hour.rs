//! Sums of one host over an hour, as `vmnoise serve` counts them. Each hour becomes one file of the
//! table `hours`.

use std::path::PathBuf;

use jiff::Timestamp;

use crate::partition::escaped;

/// Sums of one host over an hour of UTC. If `vmnoise serve` ran for only a part of the hour, the
/// sums cover this part. Times are in ns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostHour {
    /// Begin of the period, by the machine's wall clock.
    pub begin: Timestamp,
    /// End of the period, by the machine's wall clock.
    pub end: Timestamp,
    /// Length of the period, by CLOCK_MONOTONIC, in ns.
    pub period_ns: u64,
    /// Whether the period is a whole hour.
    pub is_whole: bool,
    /// Version of the vmnoise that counted the times.
    pub tool_version: String,
    /// Number of events that vmnoise's BPF programs missed.
    pub missed_events: u64,
    /// Number of vCPUs that were not watched at the end of the period, because the tables were
    /// full.
    pub vcpus_without_room: u64,
    /// CPU time of the process `vmnoise serve`, in ns.
    pub self_cpu_ns: u64,
    /// CPU time of the BPF programs that always run, in ns.
    pub probe_ns: u64,
    /// VMs that existed in the period.
    pub vms: Vec<VmHour>,
}

/// Time of all vCPUs of a VM in a period, in ns. Each ns of a vCPU is counted in exactly one field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VmHour {
    /// Name of the VM. `None` stands for the sum of all VMs that have no name of their own.
    pub vm: Option<String>,
    /// Number of vCPUs at the end of the period; 0 if the VM has ended.
    pub vcpus: u64,
    /// Time running on a CPU, in ns.
    pub running_ns: u64,
    /// Time asleep because the guest asked for sleep (HLT), in ns.
    pub halted_ns: u64,
    /// Time asleep in the VMM or for an unknown reason, in ns.
    pub asleep_ns: u64,
    /// Time waiting while other tasks ran, in ns.
    pub preempted_ns: u64,
    /// Time waiting because the quota of the cgroup or the scheduling class was used up, in ns.
    pub throttled_ns: u64,
    /// Time waiting while the CPU was idle, in ns.
    pub idle_ns: u64,
    /// Time waiting for an unknown cause, in ns.
    pub unsure_ns: u64,
    /// Time asleep inside KVM without a request from the guest, in ns.
    pub blocked_ns: u64,
    /// Unobserved time, in ns.
    pub unseen_ns: u64,
    /// Culprits of `preempted_ns`. Their times add up to `preempted_ns`.
    pub culprits: Vec<CulpritHour>,
    /// Histogram of the lengths of waits.
    pub waits: Vec<WaitHour>,
}

/// Culprit: a task that ran on a CPU while the VM waited for this CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CulpritHour {
    /// Kind of the task: `foreign`, `own`, `vm`, or `unknown` for all tasks without a name.
    pub kind: &'static str,
    /// Name of the culprit.
    pub name: String,
    /// Time for which the task ran while the VM waited, in ns.
    pub ns: u64,
}

/// Bucket of the histogram of waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitHour {
    /// Upper bound of the bucket in ns. The lower bound is the next smaller upper bound. `None` for
    /// waits longer than all bounds.
    pub up_to_ns: Option<u64>,
    /// Number of waits in the bucket.
    pub waits: u64,
}

impl HostHour {
    /// Returns the path of this hour's file in a data set. Programs that read the folder `hours` as
    /// one table get the additional columns `date` and `host` from the path.
    pub fn place(&self, host: &str) -> PathBuf {
        let begin = format!("{:.6}", self.begin);
        let (date, _) = begin.split_once('T').unwrap_or_default();
        let name = begin.replace(['-', ':'], "");
        let host = escaped(host);
        format!("hours/date={date}/host={host}/{name}.parquet").into()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use super::*;

    #[test]
    fn a_file_is_called_by_its_host_and_its_begin() {
        let begin: Timestamp = "2026-11-25T13:00:00.25Z".parse().unwrap();
        let hour = HostHour {
            begin,
            end: begin,
            period_ns: 0,
            is_whole: false,
            tool_version: String::new(),
            missed_events: 0,
            vcpus_without_room: 0,
            self_cpu_ns: 0,
            probe_ns: 0,
            vms: Vec::new(),
        };
        let place = "hours/date=2026-11-25/host=rack%2F7/20261125T130000.250000Z.parquet";
        assert_eq!(hour.place("rack/7"), PathBuf::from(place));
    }
}
