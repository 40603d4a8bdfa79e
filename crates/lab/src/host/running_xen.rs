//! Checks whether the running Xen fits a cell. This depends on Xen's command line and on other
//! domains.

use vmnoise_testbed::bed::XenDomain;

use super::Dom0;
use super::again::AGAIN;
use crate::hypervisor::Xen;
use crate::scenario::{Cell, Hypervisor, Tuning};

/// Memory in MiB that Xen needs for a guest in addition to the guest's own: page tables, and
/// buffers shared with the guest's QEMU.
const OVERHEAD_MIB: u32 = 48;
/// Default scheduler of Xen since version 4.12.
const OWN_SCHEDULER: &str = "credit2";

/// Returns the reason why this Xen does not fit the cell; `None` if it fits. Also `None` if Xen
/// does not answer, because another check reports this.
pub(super) fn refusal(dom0: &Dom0, cell: &Cell) -> Option<String> {
    let xen = dom0.xen.as_ref()?;
    let of_guest = || of_cpus(xen).or_else(|| of_memory(dom0.free_mib));
    of_scheduler(xen, cell).or_else(|| match cell.hypervisor {
        Hypervisor::Xen => of_guest(),
        _ => None,
    })
}

fn of_scheduler(xen: &Xen, cell: &Cell) -> Option<String> {
    let scheduler = match cell.tuning {
        Tuning::CreditScheduler => "credit",
        Tuning::NullScheduler => "null",
        _ => OWN_SCHEDULER,
    };
    let built = match cell.tuning {
        Tuning::NullScheduler => " (a Xen with CONFIG_SCHED_NULL, which Debian's is not)",
        _ => "",
    };
    (scheduler != xen.scheduler)
        .then(|| format!("reboot Xen with `sched={scheduler}`{built} {AGAIN}"))
}

/// Returns the reason why no CPU can be given to a guest; `None` if one can. On a CPU of Dom0, the
/// load would delay the vCPU itself, not only the guest's QEMU.
fn of_cpus(xen: &Xen) -> Option<String> {
    let why = if xen.cpus.is_empty() || xen.dom0.is_empty() {
        "`xl info -n` and `xl vcpu-list 0` do not tell the CPUs of the machine and those of Dom0: see their output"
            .to_owned()
    } else {
        format!(
            "Dom0 may run on every CPU of this machine, and a guest needs one for itself: reboot Xen with \
             `dom0_max_vcpus=1 dom0_vcpus_pin` {AGAIN}"
        )
    };
    let cpu = xen.guest_cpu().filter(|_| !xen.dom0.is_empty());
    cpu.is_none().then_some(why)
}

fn of_memory(free_mib: Option<u32>) -> Option<String> {
    let needed_mib = XenDomain::MEMORY_MIB + OVERHEAD_MIB;
    match free_mib {
        Some(free) if free >= needed_mib => None,
        Some(free) => Some(format!(
            "a guest takes {needed_mib} MiB, and {free} are free in Xen, so `xl` would take them from Dom0: boot Xen with \
             `dom0_mem=`, or let Dom0 have less (`xl mem-set 0`)"
        )),
        None => Some(format!(
            "a guest takes {needed_mib} MiB, and `xl info` does not tell how much memory is free in Xen (free_memory): \
             see its output"
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use super::*;

    fn xen(cpus: &[u32], dom0: &[&str]) -> Xen {
        Xen {
            version: "4.17".to_owned(),
            scheduler: "credit2".to_owned(),
            cpus: cpus.to_vec(),
            dom0: dom0.iter().map(|list| (*list).to_owned()).collect(),
        }
    }

    #[test]
    fn a_guest_is_not_run_beside_dom0_unless_there_is_one_cpu() {
        assert_eq!(of_cpus(&xen(&[0, 1], &["0"])), None);
        assert_eq!(of_cpus(&xen(&[0], &["all"])), None);
        let why = of_cpus(&xen(&[0, 1], &["0", "1"])).unwrap();
        assert!(why.contains("`dom0_max_vcpus=1 dom0_vcpus_pin`"), "{why}");
        for not_told in [xen(&[], &["0"]), xen(&[0, 1], &[])] {
            let why = of_cpus(&not_told).unwrap();
            assert!(why.contains("do not tell"), "{why}");
        }
    }

    #[test]
    fn memory_that_is_not_known_is_not_taken_for_none() {
        assert_eq!(of_memory(Some(560)), None);
        let why = of_memory(Some(559)).unwrap();
        assert!(why.contains("559 are free"), "{why}");
        let why = of_memory(None).unwrap();
        assert!(
            why.contains("does not tell") && !why.contains(" 0 "),
            "{why}"
        );
    }
}
