//! Reasons why a cell cannot run on this machine, and the remedies.

use std::time::Duration;

use vmnoise_testbed::installed;

use super::again::AGAIN;
use super::{Dom0, HostMachine, load, running_xen};
use crate::measuring::{self, CYCLICTEST};
use crate::scenario::{Cell, CellKernel, CellWorkload, GuestType, Hypervisor, Measure, Tuning};

/// Longest measurement of a guest. The guest's init program stops longer ones as hung.
const LONGEST: Duration = Duration::from_secs(60);

/// Returns the reason why this cell cannot run on this host of KVM; `None` if it can.
pub fn on_kvm(host: &HostMachine, cell: &Cell, measure: &Measure) -> Option<String> {
    let of_hypervisor = match cell.hypervisor {
        Hypervisor::Xen | Hypervisor::Dom0 => Some(
            "this is a host of KVM: a cell of Xen runs in a Dom0 (`--accel xen`), or in emulation (`--accel tcg`)",
        ),
        Hypervisor::Microvm => Some(
            "on a host, use `vmnoise microvm` itself: this cell runs only in emulation (`--accel tcg`)",
        ),
        Hypervisor::Bare | Hypervisor::Kvm => None,
    };
    let of_tuning = || match cell.tuning {
        Tuning::GuestIsolated | Tuning::BothIsolated => {
            Some("a guest has one CPU here, which cannot be isolated: not built yet")
        }
        Tuning::CreditScheduler | Tuning::NullScheduler | Tuning::TscEmulated => {
            Some("this is a setting of Xen, and this cell has no Xen")
        }
        Tuning::AsIs | Tuning::VcpusAtFifo99 | Tuning::VmmAtFifo99 | Tuning::HostIsolated => None,
    };
    let of_cell = of_hypervisor
        .or_else(|| of_measure(host, cell, measure))
        .or_else(of_tuning);
    let wants_isolation = cell.tuning == Tuning::HostIsolated;
    of_cell
        .map(str::to_owned)
        .or_else(|| of_kernel(host, cell))
        .or_else(|| of_isolation(host, wants_isolation))
}

/// Returns the reason why this cell cannot run in this Dom0; `None` if it can.
pub fn on_xen(dom0: &Dom0, cell: &Cell, measure: &Measure) -> Option<String> {
    let of_hypervisor = match cell.hypervisor {
        Hypervisor::Kvm | Hypervisor::Microvm => Some(
            "in a Dom0 of Xen there is no KVM: this cell runs on a host of KVM (`--accel kvm`), or in emulation \
             (`--accel tcg`)",
        ),
        Hypervisor::Bare => Some(
            "below a Dom0 there is Xen: boot this kernel without it, and run this cell with `--accel kvm`; `vmnoise-lab \
             merge` joins the folders",
        ),
        Hypervisor::Xen | Hypervisor::Dom0 => None,
    };
    let has_vmm = cell.guest_type == Some(GuestType::Hvm);
    let of_tuning = || match cell.tuning {
        Tuning::HostIsolated | Tuning::GuestIsolated | Tuning::BothIsolated => {
            Some("Xen does not know which CPUs Linux isolates in Dom0: not built yet")
        }
        Tuning::VmmAtFifo99 if !has_vmm => {
            Some("this guest has no QEMU whose threads could be set: only HVM guests have one")
        }
        Tuning::TscEmulated if cell.hypervisor == Hypervisor::Dom0 => {
            Some("this is a setting for guests of Xen, not for Dom0")
        }
        _ => None,
    };
    let of_cell = of_hypervisor
        .or_else(|| of_measure(&dom0.host, cell, measure))
        .or_else(of_tuning);
    of_cell
        .map(str::to_owned)
        .or_else(|| of_kernel(&dom0.host, cell))
        .or_else(|| of_isolation(&dom0.host, false))
        .or_else(|| running_xen::refusal(dom0, cell))
}

/// Returns the reason why the measuring program or the load cannot run; `None` if both can.
fn of_measure(host: &HostMachine, cell: &Cell, measure: &Measure) -> Option<&'static str> {
    let is_on_host = matches!(cell.hypervisor, Hypervisor::Bare | Hypervisor::Dom0);
    match cell.workload {
        CellWorkload::Cyclictest if is_on_host && !installed::is_here(CYCLICTEST) => {
            return Some("cyclictest is not here: install the package rt-tests");
        }
        CellWorkload::Exercise => {
            return Some("only vmnoise's own guest exits on purpose, and only in emulation");
        }
        CellWorkload::Cyclictest | CellWorkload::Timerlat | CellWorkload::Osnoise => {}
    }
    if let Some(why) = measuring::refusal(cell, measure).or_else(|| load::refusal(host, cell)) {
        return Some(why);
    }
    (Duration::from_nanos(measure.duration.ns()) > LONGEST).then_some(
        "a guest may measure for at most 60 s at a time: lower `duration`, and raise `repeat`",
    )
}

fn of_kernel(host: &HostMachine, cell: &Cell) -> Option<String> {
    let kind = match cell.host_kernel {
        CellKernel::Ordinary => "an ordinary",
        CellKernel::Rt => "a PREEMPT_RT",
    };
    let is_other = cell.host_kernel != host.kernel;
    is_other.then(|| format!("reboot into {kind} kernel {AGAIN}"))
}

fn of_isolation(host: &HostMachine, is_wanted: bool) -> Option<String> {
    match (is_wanted, host.is_isolated) {
        (true, false) => Some(format!(
            "reboot with `isolcpus={cpu} nohz_full={cpu} rcu_nocbs={cpu}` and an `irqaffinity` of the other CPUs {AGAIN}",
            cpu = host.cpu
        )),
        (false, true) => Some(format!("reboot without `isolcpus` {AGAIN}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use super::super::takes;
    use super::*;
    use crate::hypervisor::Xen;
    use crate::library;
    use crate::scenario::Scenario;

    fn host(kernel: CellKernel, is_isolated: bool) -> HostMachine {
        HostMachine {
            kernel,
            release: "6.1".to_owned(),
            model: "AMD EPYC".to_owned(),
            cpu: 3,
            has_another_cpu: true,
            is_isolated,
            lack: None,
        }
    }

    fn dom0(scheduler: &str, free_mib: u32) -> Dom0 {
        Dom0 {
            host: host(CellKernel::Ordinary, false),
            xen: Some(Xen {
                version: "4.17".to_owned(),
                scheduler: scheduler.to_owned(),
                cpus: vec![0, 1],
                dom0: vec!["0".to_owned()],
            }),
            free_mib: Some(free_mib),
        }
    }

    /// Returns the names of a scenario's cells that can run, and the reason why the cell `other`
    /// cannot.
    fn cells(
        scenario: &str,
        refusal: impl Fn(&Cell, &Measure) -> Option<String>,
        other: &str,
    ) -> (Vec<String>, String) {
        let scenario = Scenario::parse(library::text(scenario).unwrap()).unwrap();
        let refused = |cell: &Cell| refusal(cell, &scenario.measure);
        let cells = scenario.cells();
        let run = cells.iter().filter(|cell| refused(cell).is_none());
        let other = cells.iter().find(|cell| cell.name() == other).unwrap();
        (run.map(Cell::name).collect(), refused(other).unwrap())
    }

    fn of_kvm(scenario: &str, host: &HostMachine, other: &str) -> (Vec<String>, String) {
        cells(scenario, |cell, measure| on_kvm(host, cell, measure), other)
    }

    fn of_xen(scenario: &str, dom0: &Dom0, other: &str) -> (Vec<String>, String) {
        cells(scenario, |cell, measure| on_xen(dom0, cell, measure), other)
    }

    #[test]
    fn a_host_runs_the_cells_of_its_kernel_and_says_what_to_boot_for_the_others() {
        let ordinary = host(CellKernel::Ordinary, false);
        let (run, other) = of_kvm("kvm-and-xen", &ordinary, "kvm-rt-ordinary");
        let own = ["bare-ordinary", "kvm-ordinary-ordinary", "kvm-ordinary-rt"];
        assert_eq!(run, own);
        let merge = "kernel and run this again; `vmnoise-lab merge` joins the folders";
        assert_eq!(other, format!("reboot into a PREEMPT_RT {merge}"));
        let rt = host(CellKernel::Rt, false);
        let (run, other) = of_kvm("kvm-and-xen", &rt, "kvm-ordinary-rt");
        assert_eq!(run, ["bare-rt", "kvm-rt-ordinary", "kvm-rt-rt"]);
        assert_eq!(other, format!("reboot into an ordinary {merge}"));
    }

    #[test]
    fn each_cell_is_sent_to_its_hypervisor() {
        let (run, why) = of_kvm("xen-tsc", &host(CellKernel::Ordinary, false), "as-is");
        assert!(run.is_empty() && why.contains("`--accel xen`"), "{why}");
        let dom0 = dom0("credit2", 1_000);
        let (run, why) = of_xen("kvm-and-xen", &dom0, "kvm-ordinary-rt");
        assert_eq!(run, ["xen-ordinary-ordinary", "xen-ordinary-rt"]);
        assert!(why.contains("`--accel kvm`"), "{why}");
        let (run, why) = of_xen("xen-dom0", &dom0, "bare-ordinary");
        assert_eq!(run, ["dom0-ordinary"]);
        assert!(why.contains("without it"), "{why}");
    }

    #[test]
    fn the_scheduler_of_xen_is_chosen_when_that_boots() {
        let credit2 = dom0("credit2", 1_000);
        let (run, why) = of_xen("xen-schedulers", &credit2, "null-scheduler");
        assert_eq!(run, ["as-is"]);
        assert!(
            why.contains("`sched=null`") && why.contains("CONFIG_SCHED_NULL"),
            "{why}"
        );
        let credit = dom0("credit", 1_000);
        let (run, why) = of_xen("xen-schedulers", &credit, "as-is");
        assert_eq!(run, ["credit-scheduler"]);
        assert!(
            why.starts_with("reboot Xen with `sched=credit2` and"),
            "{why}"
        );
    }

    #[test]
    fn dom0_keeps_its_memory() {
        let (run, why) = of_xen("xen-dom0", &dom0("credit2", 100), "dom0-rt");
        assert_eq!(run, ["dom0-ordinary"], "it takes none of Xen");
        assert!(why.starts_with("reboot into a PREEMPT_RT"), "{why}");
        let (run, why) = of_xen("xen-tsc", &dom0("credit2", 100), "as-is");
        assert!(run.is_empty() && why.contains("`dom0_mem=`"), "{why}");
    }

    #[test]
    fn only_a_guest_with_a_qemu_has_threads_of_it() {
        let scenario = "xen-priority-inversion";
        let (run, why) = of_xen(
            scenario,
            &dom0("credit2", 1_000),
            "pvh-ordinary-vmm-at-fifo99",
        );
        let with = [
            "pvh-ordinary-as-is",
            "hvm-ordinary-as-is",
            "hvm-ordinary-vmm-at-fifo99",
        ];
        assert_eq!(run, with);
        assert!(why.contains("HVM"), "{why}");
    }

    #[test]
    fn cpus_are_isolated_for_the_cells_that_want_it_and_for_no_other() {
        let (run, other) = of_kvm("isolation", &host(CellKernel::Rt, false), "host-isolated");
        assert_eq!(run, ["as-is"]);
        assert!(other.contains("isolcpus=3"), "{other}");
        let (run, other) = of_kvm("isolation", &host(CellKernel::Rt, true), "as-is");
        assert_eq!(run, ["host-isolated"]);
        assert!(other.contains("without `isolcpus`"), "{other}");
    }

    #[test]
    fn packets_that_would_wait_for_ever_are_not_sent() {
        let ordinary = host(CellKernel::Ordinary, false);
        let (run, _) = of_kvm("net-rx-tail", &ordinary, "rt-idle");
        let all = [
            "ordinary-idle",
            "ordinary-network",
            "ordinary-network-elsewhere",
        ];
        assert_eq!(run, all);
        let (run, why) = of_kvm("net-rx-tail", &host(CellKernel::Rt, false), "rt-network");
        assert_eq!(run, ["rt-idle"]);
        assert!(why.contains("ksoftirqd"), "{why}");
    }

    #[test]
    fn where_there_is_one_cpu_no_other_sends_packets() {
        let one_cpu = HostMachine {
            has_another_cpu: false,
            ..host(CellKernel::Ordinary, false)
        };
        let (run, why) = of_kvm("net-rx-tail", &one_cpu, "ordinary-network");
        assert_eq!(run, ["ordinary-idle"]);
        assert!(why.contains("another CPU"), "{why}");
    }

    /// Returns the names of the cells with these axes that a PREEMPT_RT host can run.
    fn with_packets(axes: &str, workload: &str) -> Vec<String> {
        let text = format!(
            "title = \"t\"\nsource = \"s\"\n[axes]\n{axes}\nhost-kernel = \"rt\"\nload = \"network\"\n\
             [measure]\nworkload = \"{workload}\"\nduration = \"1s\"\n"
        );
        let scenario = Scenario::parse(&text).unwrap();
        let rt = host(CellKernel::Rt, false);
        let runs = |cell: &Cell| on_kvm(&rt, cell, &scenario.measure).is_none();
        let cells = scenario.cells();
        let run = cells.iter().filter(|cell| runs(cell));
        run.map(Cell::name).collect()
    }

    #[test]
    fn packets_wait_only_for_a_task_that_polls_at_fifo_on_the_host() {
        let bare = "hypervisor = \"bare\"\npolicy = [\"other\", \"fifo1\"]";
        assert_eq!(with_packets(bare, "osnoise"), ["other"]);
        assert_eq!(with_packets(bare, "timerlat"), ["other", "fifo1"]);
        let policies = "hypervisor = \"kvm\"\npolicy = [\"other\", \"fifo1\"]";
        assert_eq!(with_packets(policies, "osnoise"), ["other", "fifo1"]);
        let tunings =
            "hypervisor = \"kvm\"\ntuning = [\"as-is\", \"vcpus-at-fifo99\", \"vmm-at-fifo99\"]";
        assert_eq!(with_packets(tunings, "osnoise"), ["as-is"]);
        let all = ["as-is", "vcpus-at-fifo99", "vmm-at-fifo99"];
        assert_eq!(with_packets(tunings, "timerlat"), all);
    }

    #[test]
    fn what_a_guest_would_be_ended_for_is_refused() {
        let text = library::text("isolation").unwrap().replace("100ms", "2m");
        let scenario = Scenario::parse(&text).unwrap();
        let cell = &scenario.cells()[0];
        let why = on_kvm(&host(CellKernel::Rt, false), cell, &scenario.measure).unwrap();
        assert!(why.contains("`repeat`"), "{why}");
        let takes = takes(cell, &scenario.measure).as_secs();
        assert!((120..180).contains(&takes), "{takes}");
    }
}
