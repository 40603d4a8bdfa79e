//! This machine as the Dom0 of Xen.

use std::fs;

use anyhow::Result;
use vmnoise_testbed::bed::{XenDomain, xl};

use super::machine::{HostMachine, is_on_xen, is_root};
use crate::hypervisor::{self, Xen};
use crate::scenario::{Cell, Hypervisor};

/// File that tells whether this domain controls Xen.
const CAPABILITIES: &str = "/proc/xen/capabilities";
/// Daemon that passes on the console output of guests.
const CONSOLES: &str = "xenconsoled";

/// This machine as a Dom0 that creates guests.
#[derive(Debug, Clone)]
pub struct Dom0 {
    /// Kernel of Dom0, the CPU of Dom0 that is measured or loaded, and the missing requirement, if
    /// any.
    pub host: HostMachine,
    /// Xen below this Dom0; `None` if a requirement is missing.
    pub xen: Option<Xen>,
    /// Memory that no domain uses, in MiB; `None` if Xen does not report it.
    pub free_mib: Option<u32>,
}

impl Dom0 {
    /// Reads the state of this Dom0 and its Xen.
    ///
    /// # Errors
    /// If the kernel's files cannot be read.
    pub fn read() -> Result<Dom0> {
        let mut dom0 = Dom0 {
            host: HostMachine::with(lack())?,
            xen: None,
            free_mib: None,
        };
        if dom0.host.lack.is_none() {
            dom0.host.lack = dom0.ask().err().map(|error| {
                let start = "install Xen's programs (package xen-utils-common) and start them (`systemctl start xen`)";
                let said = format!("{error:#}").replace('\n', "; ");
                format!("Xen does not answer: {start}; {said}")
            });
        }
        Ok(dom0)
    }

    /// Reads the state of Xen again, because other domains may have started and taken memory.
    ///
    /// # Errors
    /// If Xen does not answer.
    pub(super) fn now(&self) -> Result<Dom0> {
        let mut now = self.clone();
        now.ask()?;
        Ok(now)
    }

    /// Reads the state of Xen with `xl`.
    fn ask(&mut self) -> Result<()> {
        let info = xl::said(&["info", "-n"])?;
        let vcpus = xl::said(&["vcpu-list", "0"])?;
        self.free_mib = hypervisor::free_mib(&info);
        self.xen = Some(Xen::of(&info, &vcpus));
        Ok(())
    }

    /// Returns a limitation of a cell that was measured here; `None` without a limitation.
    pub fn caveat(&self, cell: &Cell) -> Option<&'static str> {
        let shares = self.xen.as_ref().is_some_and(Xen::has_one_cpu);
        (shares && cell.hypervisor == Hypervisor::Xen).then_some(
            "Dom0 and the guest share the only CPU of this machine, so the guest waits whenever Dom0 runs",
        )
    }

    /// Describes the effects of a run on this machine; `None` if no cell can run.
    pub fn effects(&self) -> Option<String> {
        let xen = self.xen.as_ref()?;
        let guest = match xen.guest_cpu() {
            _ if xen.has_one_cpu() => {
                "A guest and Dom0 share the only CPU of this machine.".to_owned()
            }
            Some(cpu) => {
                format!(
                    "The vCPU of a guest has CPU {cpu} of the machine, on which Dom0 never runs."
                )
            }
            None => "No guest is run, because Dom0 may run on every CPU of the machine.".to_owned(),
        };
        Some(format!(
            "This is Linux {release} as Dom0 of Xen {version} with the scheduler {scheduler}, and time is real: leave \
             the machine alone meanwhile. {guest} The load and the QEMU of an HVM guest run on CPU {cpu} of Dom0, and a \
             cell of Dom0 itself is measured there. What else is started runs on Dom0's other CPUs, if it has any. A \
             guest takes {memory} MiB of the memory that is free in Xen, and up to 100 MB in {temporary}. No setting of \
             Dom0 or of Xen is changed. The domain and all programs end with the run; the logs of `xl` stay in \
             /var/log/xen.",
            release = self.host.release,
            version = xen.version,
            scheduler = xen.scheduler,
            cpu = self.host.cpu,
            memory = XenDomain::MEMORY_MIB,
            temporary = std::env::temp_dir().display()
        ))
    }
}

fn lack() -> Option<String> {
    let capabilities = fs::read_to_string(CAPABILITIES).unwrap_or_default();
    let what = if !is_on_xen() {
        "this kernel does not run on Xen: boot Xen and this kernel as its Dom0 (package xen-system-amd64), or run the \
         cells in emulation (`--accel tcg`)"
    } else if !capabilities.contains("control_d") {
        "this is a guest of Xen, and only its Dom0 creates guests: run it there (if this is Dom0, `mount -t \
         xenfs xenfs /proc/xen`)"
    } else if !is_root() {
        "Xen takes commands only from root: run it as root"
    } else if !runs(CONSOLES) {
        "xenconsoled does not run, and without it a guest cannot hand out its results: `systemctl start xen`"
    } else {
        return None;
    };
    Some(what.to_owned())
}

/// Returns whether a program with this name is running.
fn runs(name: &str) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut names = processes.map(|it| fs::read_to_string(it.path().join("comm")));
    names.any(|it| it.is_ok_and(|it| it.trim() == name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use super::*;
    use crate::library;
    use crate::scenario::Scenario;

    fn dom0(xen: Option<(&[u32], &str)>) -> Dom0 {
        Dom0 {
            host: HostMachine::with(None).unwrap(),
            xen: xen.map(|(cpus, dom0)| Xen {
                version: "4.17".to_owned(),
                scheduler: "credit2".to_owned(),
                cpus: cpus.to_vec(),
                dom0: vec![dom0.to_owned()],
            }),
            free_mib: None,
        }
    }

    #[test]
    fn a_plan_says_where_a_guest_runs_and_nothing_of_a_xen_that_is_not_there() {
        let said = |cpus: &[u32], list| dom0(Some((cpus, list))).effects().unwrap();
        let own = said(&[0, 1], "0");
        assert!(
            own.contains("CPU 1 of the machine, on which Dom0 never runs"),
            "{own}"
        );
        let none = said(&[0, 1], "all");
        assert!(none.contains("No guest is run"), "{none}");
        let shared = said(&[0], "all");
        assert!(shared.contains("share the only CPU"), "{shared}");
        assert_eq!(dom0(None).effects(), None);
    }

    #[test]
    fn a_guest_that_shares_its_cpu_with_dom0_carries_that() {
        let of_first_cell = |scenario, cpus: &[u32]| {
            let scenario = Scenario::parse(library::text(scenario).unwrap()).unwrap();
            let cell = &scenario.cells()[0];
            dom0(Some((cpus, "0"))).caveat(cell)
        };
        assert!(of_first_cell("xen-tsc", &[0]).is_some());
        assert_eq!(of_first_cell("xen-tsc", &[0, 1]), None);
        let of_dom0 = of_first_cell("kvm-and-xen", &[0]);
        assert_eq!(of_dom0, None, "it has no guest of Xen");
    }
}
