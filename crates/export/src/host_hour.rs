//! What `vmnoise serve` kept of an hour of one host, as one file of the table `hours`.

use std::path::PathBuf;

use jiff::Timestamp;

use crate::partition::escaped;

/// A period of one host: an hour of UTC, or what of it `vmnoise serve` was there for. Lengths are ns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostHour {
    /// By the machine's wall clock.
    pub begin: Timestamp,
    /// By the same.
    pub end: Timestamp,
    /// How long it was by CLOCK_MONOTONIC.
    pub period_ns: u64,
    /// Whether it is an hour from its begin to its end.
    pub is_whole: bool,
    /// The vmnoise that kept these books.
    pub tool_version: String,
    /// Events that its programs missed.
    pub missed_events: u64,
    /// vCPUs that were not watched at its end.
    pub vcpus_without_room: u64,
    /// CPU time of `vmnoise serve`.
    pub self_cpu_ns: u64,
    /// CPU time of its program at switches.
    pub probe_ns: u64,
    /// Each VM that there was.
    pub vms: Vec<VmHour>,
}

/// What the vCPUs of a VM did together in a period, each ns of each in one state or one share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VmHour {
    /// What it is called; `None` is all those for which no name was left.
    pub vm: Option<String>,
    /// Its vCPUs at the end of the period; 0 if it has ended.
    pub vcpus: u64,
    /// They had a CPU.
    pub running_ns: u64,
    /// They slept at their guest's wish.
    pub halted_ns: u64,
    /// They slept in the VMM.
    pub asleep_ns: u64,
    /// They waited while others ran.
    pub preempted_ns: u64,
    /// They waited because their group or class had used up its time.
    pub throttled_ns: u64,
    /// They waited while their CPU idled.
    pub idle_ns: u64,
    /// They waited, and nobody knows for what.
    pub unsure_ns: u64,
    /// They slept inside of KVM without their guest's wish.
    pub blocked_ns: u64,
    /// They were not seen.
    pub unseen_ns: u64,
    /// Whose fault `preempted_ns` is; they add up to it.
    pub culprits: Vec<CulpritHour>,
    /// How often they waited for how long.
    pub waits: Vec<WaitHour>,
}

/// Who had a VM's CPUs while it waited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CulpritHour {
    /// Whose task it is: `foreign`, `own`, `vm`, or `unknown` for all that have no name.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// How long.
    pub ns: u64,
}

/// Waits of about one length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitHour {
    /// None was longer, and all were longer than the bound below; `None` is above all bounds.
    pub up_to_ns: Option<u64>,
    /// How many.
    pub waits: u64,
}

impl HostHour {
    /// Where its file lies in a data set. Whoever reads the folder `hours` as one table has two columns
    /// more, `date` and `host`.
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
    #![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

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
