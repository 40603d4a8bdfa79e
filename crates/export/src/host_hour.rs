//! Sums of `vmnoise serve` over an hour of one host, as one file of the table `hours`.

use std::path::PathBuf;

use jiff::Timestamp;

use crate::partition::escaped;

/// A period of one host: an hour of UTC, or the part of it in which `vmnoise serve` ran. Lengths
/// are ns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostHour {
    /// Begin by the machine's wall clock.
    pub begin: Timestamp,
    /// End by the same clock.
    pub end: Timestamp,
    /// Length by CLOCK_MONOTONIC.
    pub period_ns: u64,
    /// True if it is a whole hour.
    pub is_whole: bool,
    /// Version of the vmnoise that counted.
    pub tool_version: String,
    /// Events that its programs missed.
    pub missed_events: u64,
    /// vCPUs that were not watched at its end.
    pub vcpus_without_room: u64,
    /// CPU time of `vmnoise serve`.
    pub self_cpu_ns: u64,
    /// CPU time of its programs that are always on.
    pub probe_ns: u64,
    /// VMs that were present.
    pub vms: Vec<VmHour>,
}

/// Time of all vCPUs of a VM in a period. Each ns of a vCPU is in one state or one share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VmHour {
    /// Name of the VM; `None` sums up all VMs for which no name was left.
    pub vm: Option<String>,
    /// Number of vCPUs at the end of the period; 0 if the VM has ended.
    pub vcpus: u64,
    /// Time on a CPU.
    pub running_ns: u64,
    /// Time asleep because the guest asked for it (HLT).
    pub halted_ns: u64,
    /// Time asleep in the VMM, or for an unknown reason.
    pub asleep_ns: u64,
    /// Time of waits while other tasks ran.
    pub preempted_ns: u64,
    /// Time of waits because their group or class had used up its time.
    pub throttled_ns: u64,
    /// Time of waits while their CPU idled.
    pub idle_ns: u64,
    /// Time of waits with an unknown cause.
    pub unsure_ns: u64,
    /// Time asleep inside KVM, which the guest did not ask for.
    pub blocked_ns: u64,
    /// Time that was not observed.
    pub unseen_ns: u64,
    /// Culprits of `preempted_ns`, which add up to it.
    pub culprits: Vec<CulpritHour>,
    /// Histogram of the waits.
    pub waits: Vec<WaitHour>,
}

/// A culprit: a task that had a VM's CPUs while the VM waited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CulpritHour {
    /// Kind of the task: `foreign`, `own`, `vm`, or `unknown` for all that have no name.
    pub kind: &'static str,
    /// Name of the culprit.
    pub name: String,
    /// Time that it had.
    pub ns: u64,
}

/// Waits of about one length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitHour {
    /// Upper bound of their lengths; the next smaller bound is their lower bound. `None` is above
    /// all bounds.
    pub up_to_ns: Option<u64>,
    /// Number of waits.
    pub waits: u64,
}

impl HostHour {
    /// Returns the path of its file in a data set. Programs that read the folder `hours` as one
    /// table get two more columns, `date` and `host`.
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
