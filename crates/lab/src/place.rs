//! Environments in which cells run: emulation, or this machine with its KVM or its Xen.

use std::time::Duration;

use anyhow::Result;
use vmnoise_testbed::bed::{self, BedPart};

use crate::accel::Accel;
use crate::machine::BootedMachine;
use crate::measuring::{self, Brought, Job, image};
use crate::scenario::{Cell, Measure};
use crate::{emulation, host};

/// Environment in which cells run.
#[derive(Debug, Clone)]
pub enum CellPlace {
    /// Machines that QEMU emulates.
    Emulation,
    /// This machine with its KVM.
    Host(host::HostMachine),
    /// This machine as a Dom0, with the Xen below it.
    Dom0(host::Dom0),
}

impl CellPlace {
    /// Creates the environment that the user selected.
    ///
    /// # Errors
    /// If the kernel's files on this machine cannot be read.
    pub fn of(accel: Accel) -> Result<CellPlace> {
        Ok(match accel {
            Accel::Tcg => CellPlace::Emulation,
            Accel::Kvm => CellPlace::Host(host::HostMachine::read()?),
            Accel::Xen => CellPlace::Dom0(host::Dom0::read()?),
        })
    }

    /// Returns the environment as the user selected it.
    pub fn accel(&self) -> Accel {
        match self {
            CellPlace::Emulation => Accel::Tcg,
            CellPlace::Host(_) => Accel::Kvm,
            CellPlace::Dom0(_) => Accel::Xen,
        }
    }

    /// Returns the machine on which cells run; `None` in emulation.
    pub fn machine(&self) -> Option<BootedMachine> {
        let (host, xen) = match self {
            CellPlace::Emulation => return None,
            CellPlace::Host(host) => (host, None),
            CellPlace::Dom0(dom0) => (&dom0.host, dom0.xen.clone()),
        };
        Some(BootedMachine {
            cpu: host.model.clone(),
            kernel: host.release.clone(),
            xen,
        })
    }

    /// Returns the reason why no cell can run; `None` if cells can run.
    pub fn lack(&self) -> Option<&str> {
        match self {
            CellPlace::Emulation => None,
            CellPlace::Host(host) => host.lack.as_deref(),
            CellPlace::Dom0(dom0) => dom0.host.lack.as_deref(),
        }
    }

    /// Returns the reason why this cell cannot run here; `None` if it can.
    pub fn refusal(&self, cell: &Cell, measure: &Measure) -> Option<String> {
        match self {
            CellPlace::Emulation => emulation::refusal(cell, measure).map(str::to_owned),
            CellPlace::Host(host) => host::refusal::on_kvm(host, cell, measure),
            CellPlace::Dom0(dom0) => host::refusal::on_xen(dom0, cell, measure),
        }
    }

    /// Returns a limitation of a cell that was measured here; `None` without a limitation.
    pub fn caveat(&self, cell: &Cell) -> Option<&'static str> {
        match self {
            CellPlace::Emulation | CellPlace::Host(_) => None,
            CellPlace::Dom0(dom0) => dom0.caveat(cell),
        }
    }

    /// Estimates the time that a cell takes.
    pub fn takes(&self, cell: &Cell, measure: &Measure) -> Duration {
        match self {
            CellPlace::Emulation => emulation::takes(cell, measure),
            CellPlace::Host(_) | CellPlace::Dom0(_) => host::takes(cell, measure),
        }
    }

    /// Returns the number of cells that run in parallel. In real time this is one, so that cells do
    /// not disturb each other.
    pub fn jobs(&self) -> usize {
        match self {
            CellPlace::Emulation => emulation::jobs(),
            CellPlace::Host(_) | CellPlace::Dom0(_) => 1,
        }
    }

    /// Makes all repetitions of a cell. The user may end the run earlier.
    ///
    /// # Errors
    /// If the cell does not finish.
    pub fn run(&self, job: Job<'_>) -> Result<Brought> {
        match self {
            CellPlace::Emulation => emulation::run(job),
            CellPlace::Host(host) => host::run_on_kvm(host, job),
            CellPlace::Dom0(dom0) => host::run_on_xen(dom0, job),
        }
    }

    /// Returns the kernels and programs that must be available for a cell.
    pub fn parts(&self, cell: &Cell) -> Vec<BedPart> {
        match self {
            CellPlace::Emulation => emulation::parts(cell),
            CellPlace::Host(_) | CellPlace::Dom0(_) => {
                let Some(kernel) = cell.guest_kernel else {
                    return Vec::new();
                };
                let measures = measuring::packaged_to_measure(cell).map(BedPart::Program);
                let kernel = BedPart::Kernel(image(kernel, bed::DebianKernel::Cloud));
                [kernel].into_iter().chain(measures).collect()
            }
        }
    }

    /// Returns the bytes that cells need in target/lab while they run. On a host, the files are in
    /// the folder for temporary files instead, and `effects` tells their size.
    pub fn room_bytes(&self) -> u64 {
        match self {
            CellPlace::Emulation => 1 << 30,
            CellPlace::Host(_) | CellPlace::Dom0(_) => 0,
        }
    }

    /// Returns whether cells use the QEMU that is installed on this machine.
    pub fn takes_qemu(&self) -> bool {
        match self {
            CellPlace::Emulation | CellPlace::Host(_) => true,
            CellPlace::Dom0(_) => false,
        }
    }

    /// Describes the effects of a run on this machine.
    pub fn effects(&self) -> String {
        match self {
            CellPlace::Emulation => "Nothing else of this machine is changed.".to_owned(),
            CellPlace::Host(host) => format!(
                "This is Linux {release}, and time is real: leave the machine alone meanwhile. A bare cell, or \
                 the thread of a vCPU, runs on CPU {cpu}, at SCHED_FIFO 99 if the cell says so: other tasks on this CPU \
                 have to wait. A load runs on it too. All other threads of a guest run on other CPUs. A guest has 1 GB of \
                 memory, and up to 300 MB in {temporary}. No setting of this machine is changed, and everything that is \
                 started ends with the run.",
                release = host.release,
                cpu = host.cpu,
                temporary = std::env::temp_dir().display()
            ),
            CellPlace::Dom0(dom0) => dom0.effects().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use super::*;
    use crate::scenario::{CellKernel, Scenario};

    const SCENARIO: &str = r#"
        title = "t"
        source = "s"
        [axes]
        hypervisor = ["bare", "kvm"]
        host-kernel = "ordinary"
        load = "stress-ng"
        [measure]
        workload = "cyclictest"
        duration = "1s"
    "#;

    #[test]
    fn on_a_host_only_a_guest_needs_packages_and_none_for_the_load() {
        let host = CellPlace::Host(host::HostMachine {
            kernel: CellKernel::Ordinary,
            release: "6.1".to_owned(),
            model: String::new(),
            cpu: 3,
            has_another_cpu: true,
            is_isolated: false,
            lack: None,
        });
        let cells = Scenario::parse(SCENARIO).unwrap().cells();
        let packages = |place: &CellPlace| {
            let parts = |cell| {
                place
                    .parts(cell)
                    .into_iter()
                    .map(BedPart::package)
                    .collect()
            };
            cells.iter().map(parts).collect::<Vec<Vec<_>>>()
        };
        let of_guest = vec!["linux-image-cloud-amd64", "rt-tests"];
        assert_eq!(packages(&host), [vec![], of_guest]);
        for emulated in packages(&CellPlace::Emulation) {
            assert!(
                emulated.ends_with(&["rt-tests", "stress-ng"]),
                "{emulated:?}"
            );
        }
    }
}
