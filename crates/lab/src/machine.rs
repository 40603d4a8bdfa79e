//! Description of a real machine. The description is stored with each cell, because results from
//! several machines can be merged.

use serde::{Deserialize, Serialize};

use crate::hypervisor::Xen;

/// A machine, and the system that was booted on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootedMachine {
    /// Model of the machine's CPUs.
    pub cpu: String,
    /// Release of the kernel (`uname -r`) of the host or of Dom0.
    pub kernel: String,
    /// Xen below Dom0; `None` without Xen.
    pub xen: Option<Xen>,
}

impl BootedMachine {
    /// Returns whether `self` and `other` may be the same machine, perhaps with another kernel or
    /// hypervisor. Two machines with the same CPU model cannot be distinguished.
    pub fn can_be(&self, other: &BootedMachine) -> bool {
        self.cpu == other.cpu
    }

    /// Describes the machine in words.
    pub fn words(&self) -> String {
        let xen = self.xen.as_ref().map(Xen::words);
        let xen = xen.map_or(String::new(), |xen| format!(" on {xen}"));
        format!("{}, Linux {}{xen}", self.cpu, self.kernel)
    }
}

/// Returns the model of the CPU from /proc/cpuinfo (proc(5)).
pub(crate) fn cpu_model(cpuinfo: &str) -> String {
    let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let model = lines.find(|(key, _)| key.trim() == "model name");
    model
        .map_or("a CPU that has no name", |(_, model)| model.trim())
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_named_with_what_was_booted() {
        let cpu = cpu_model("processor\t: 0\nmodel name\t: AMD EPYC 7702\nprocessor\t: 1\n");
        let host = BootedMachine {
            cpu,
            kernel: "6.1.0-56-amd64".to_owned(),
            xen: None,
        };
        assert_eq!(host.words(), "AMD EPYC 7702, Linux 6.1.0-56-amd64");
        let dom0 = BootedMachine {
            xen: Some(Xen {
                version: "4.17.5".to_owned(),
                scheduler: "credit2".to_owned(),
                cpus: vec![0, 1],
                dom0: vec!["0".to_owned(), "0-1".to_owned()],
            }),
            ..host.clone()
        };
        let xen = " on Xen 4.17.5 (credit2; Dom0's CPUs may run on 0 and 0-1 of 2)";
        assert_eq!(dom0.words(), format!("{}{xen}", host.words()));
        assert!(host.can_be(&dom0));
        assert_eq!(cpu_model(""), "a CPU that has no name");
    }
}
