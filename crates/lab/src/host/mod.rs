//! A cell on this machine's own kernel, with its own KVM, in real time. Cells of another kind of kernel wait until
//! it is booted.

mod bare;
mod kvm;
mod load;
mod machine;
mod recorder;
mod waiting;

use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};

use vmnoise_labs::installed;

use crate::measuring::{Brought, CYCLICTEST, Job};
use crate::scenario::{Cell, Hypervisor, Kernel, Measure, Tuning, Workload};

pub use machine::Host;

/// What the init of a guest takes for hung is longer than this.
const LONGEST: Duration = Duration::from_secs(60);

/// Measures a cell as often as is asked, unless it is asked to end before.
///
/// # Errors
/// If the cell cannot be had or does not come to its end, with the end of its console.
pub fn run(host: &Host, job: Job<'_>) -> Result<Brought> {
    match job.cell.hypervisor {
        Hypervisor::Bare => bare::run(host, job),
        // A thread of its own, which stays off the CPU of the vCPU, as all that it starts.
        Hypervisor::Kvm => thread::scope(|scope| {
            let cell = scope.spawn(|| kvm::run(host, job));
            cell.join().unwrap_or_else(|_| bail!("a thread panicked"))
        }),
        Hypervisor::Microvm | Hypervisor::Xen | Hypervisor::Dom0 => {
            bail!("{} is for emulation", job.cell.name())
        }
    }
}

/// Why this cell cannot be had on this host, if it cannot, and what to do about it.
pub fn refusal(host: &Host, cell: &Cell, measure: &Measure) -> Option<String> {
    let can = |what: &str| Some(what.to_owned());
    match cell.hypervisor {
        Hypervisor::Xen | Hypervisor::Dom0 => {
            return can("this is a host of KVM: a cell of Xen runs in emulation (`--accel tcg`)");
        }
        Hypervisor::Microvm => {
            return can(
                "here `vmnoise microvm` measures by itself: this cell runs in emulation (`--accel tcg`)",
            );
        }
        Hypervisor::Bare | Hypervisor::Kvm => {}
    }
    let is_bare = cell.hypervisor == Hypervisor::Bare;
    if is_bare && cell.workload == Workload::Cyclictest && !installed::is_here(CYCLICTEST) {
        return can("cyclictest is not here: install the package rt-tests");
    }
    if let Some(why) = load::refusal(cell) {
        return can(why);
    }
    if Duration::from_nanos(measure.duration.ns()) > LONGEST {
        return can(
            "a guest is let measure for 60 s at a time: lower `duration`, and raise `repeat`",
        );
    }
    match cell.tuning {
        Tuning::GuestIsolated | Tuning::BothIsolated => {
            return can("a guest has one CPU here, and that cannot be isolated: not built yet");
        }
        Tuning::CreditScheduler | Tuning::NullScheduler | Tuning::TscEmulated => {
            return can("it is a setting of Xen, which this cell is without");
        }
        Tuning::AsIs | Tuning::VcpusAtFifo99 | Tuning::VmmAtFifo99 | Tuning::HostIsolated => {}
    }
    let again = "and run this again; `vmnoise-lab merge` joins the folders";
    if cell.host_kernel != host.kernel {
        let kind = match cell.host_kernel {
            Kernel::Ordinary => "an ordinary",
            Kernel::Rt => "a PREEMPT_RT",
        };
        return Some(format!("reboot into {kind} kernel {again}"));
    }
    match (cell.tuning, host.is_isolated) {
        (Tuning::HostIsolated, false) => Some(format!(
            "reboot with `isolcpus={cpu} nohz_full={cpu} rcu_nocbs={cpu}` and an `irqaffinity` of the other CPUs {again}",
            cpu = host.cpu
        )),
        (Tuning::HostIsolated, true) | (_, false) => None,
        (_, true) => Some(format!("reboot without `isolcpus` {again}")),
    }
}

/// About how long it takes: a boot, and what is measured.
pub fn takes(cell: &Cell, measure: &Measure) -> Duration {
    let boot_s = match cell.hypervisor {
        Hypervisor::Kvm => 15,
        Hypervisor::Bare | Hypervisor::Microvm | Hypervisor::Xen | Hypervisor::Dom0 => 2,
    };
    Duration::from_secs(boot_s) + Duration::from_nanos(measure.duration.ns()) * measure.repeat
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

    use super::*;
    use crate::library;
    use crate::scenario::Scenario;

    fn host(kernel: Kernel, is_isolated: bool) -> Host {
        Host {
            kernel,
            release: "6.1".to_owned(),
            cpu: 3,
            is_isolated,
            lack: None,
        }
    }

    /// The cells of a scenario that this host runs, and what it says to another one.
    fn cells(scenario: &str, host: &Host, other: &str) -> (Vec<String>, String) {
        let scenario = Scenario::parse(library::text(scenario).unwrap()).unwrap();
        let refused = |cell: &Cell| refusal(host, cell, &scenario.measure);
        let cells = scenario.cells();
        let run = cells.iter().filter(|cell| refused(cell).is_none());
        let other = cells.iter().find(|cell| cell.name() == other).unwrap();
        (run.map(Cell::name).collect(), refused(other).unwrap())
    }

    #[test]
    fn a_host_runs_the_cells_of_its_kernel_and_says_what_to_boot_for_the_others() {
        let ordinary = host(Kernel::Ordinary, false);
        let (run, other) = cells("kvm-and-xen", &ordinary, "kvm-rt-ordinary");
        let own = ["bare-ordinary", "kvm-ordinary-ordinary", "kvm-ordinary-rt"];
        assert_eq!(run, own);
        let merge = "kernel and run this again; `vmnoise-lab merge` joins the folders";
        assert_eq!(other, format!("reboot into a PREEMPT_RT {merge}"));
        let rt = host(Kernel::Rt, false);
        let (run, other) = cells("kvm-and-xen", &rt, "kvm-ordinary-rt");
        assert_eq!(run, ["bare-rt", "kvm-rt-ordinary", "kvm-rt-rt"]);
        assert_eq!(other, format!("reboot into an ordinary {merge}"));
    }

    #[test]
    fn a_cell_of_xen_is_sent_to_emulation() {
        let (run, why) = cells("xen-tsc", &host(Kernel::Ordinary, false), "as-is");
        assert!(run.is_empty() && why.contains("--accel tcg"), "{why}");
    }

    #[test]
    fn cpus_are_isolated_for_the_cells_that_want_it_and_for_no_other() {
        let (run, other) = cells("isolation", &host(Kernel::Rt, false), "host-isolated");
        assert_eq!(run, ["as-is"]);
        assert!(other.contains("isolcpus=3"), "{other}");
        let (run, other) = cells("isolation", &host(Kernel::Rt, true), "as-is");
        assert_eq!(run, ["host-isolated"]);
        assert!(other.contains("without `isolcpus`"), "{other}");
    }

    #[test]
    fn packets_that_would_wait_for_ever_are_not_sent() {
        let ordinary = host(Kernel::Ordinary, false);
        let (run, _) = cells("net-rx-tail", &ordinary, "rt-idle");
        let all = [
            "ordinary-idle",
            "ordinary-network",
            "ordinary-network-elsewhere",
        ];
        assert_eq!(run, all);
        let (run, why) = cells("net-rx-tail", &host(Kernel::Rt, false), "rt-network");
        assert_eq!(run, ["rt-idle"]);
        assert!(why.contains("ksoftirqd"), "{why}");
    }

    #[test]
    fn what_a_guest_would_be_ended_for_is_refused() {
        let text = library::text("isolation").unwrap().replace("100ms", "2m");
        let scenario = Scenario::parse(&text).unwrap();
        let cell = &scenario.cells()[0];
        let why = refusal(&host(Kernel::Rt, false), cell, &scenario.measure).unwrap();
        assert!(why.contains("`repeat`"), "{why}");
        let takes = takes(cell, &scenario.measure).as_secs();
        assert!((120..180).contains(&takes), "{takes}");
    }
}
