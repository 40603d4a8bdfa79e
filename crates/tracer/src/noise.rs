//! Loads the groups of the programs of `bpf/noise.bpf.c` that this kernel can run.

use std::collections::BTreeMap;

use crate::{
    btf::KernelBtf,
    error::LoadError,
    object::{ObjectPlan, Programs, load_what_fits},
    probes::{Group, Probe},
    wire,
};

/// Programs that read the steal clock. They have no tracepoint, and belong to no group.
const STEAL_PROGRAMS: [&str; 3] = ["find_run_queues", "read_steal", "read_own_steal"];

/// Loads those of the given groups that this kernel supports. Also returns why each other group is
/// absent. `steal`: whether the steal clock's programs are loaded too.
pub(crate) fn load(
    btf: &KernelBtf,
    groups: &[Group],
    steal: bool,
) -> Result<(Programs, BTreeMap<Group, String>), LoadError> {
    load_what_fits(btf, groups, &|groups, is_trial| {
        let steal = steal && !is_trial;
        plan(&|name, probe| is_wanted(btf, groups, steal, name, probe)).load()
    })
}

fn plan(wants: &dyn Fn(&str, Option<Probe<'_>>) -> bool) -> ObjectPlan<'_> {
    ObjectPlan {
        name: "vmnoise",
        compiled: wire::OBJECT,
        reads_kvm: false,
        wants,
        entries: &|map, cpus| matches!(map, "cpus" | "exits").then_some(cpus),
        settings: &[],
    }
}

/// Returns whether a program is in one of these groups, or reads the steal clock if `steal` is
/// true.
fn is_wanted(
    btf: &KernelBtf,
    groups: &[Group],
    steal: bool,
    name: &str,
    probe: Option<Probe<'_>>,
) -> bool {
    match probe {
        Some(probe) => groups.contains(&probe.group) && probe.fits(name, btf),
        None => steal && STEAL_PROGRAMS.contains(&name),
    }
}

#[cfg(test)]
mod tests {
    mod root {
        use libbpf_rs::{Object, ObjectBuilder};

        use super::super::*;
        use crate::log::quietly;

        const GROUPS: [Group; 3] = [Group::Irq, Group::Sched, Group::Nmi];

        /// Returns this kernel's type information with `name` replaced by another name.
        fn btf_without(name: &str) -> Vec<u8> {
            let mut btf = std::fs::read("/sys/kernel/btf/vmlinux").unwrap();
            let whole = format!("\0{name}\0").into_bytes();
            let at = btf.windows(whole.len()).position(|it| it == whole);
            btf[at.unwrap() + 1] = b'_';
            btf
        }

        /// Simulates a kernel without CONFIG_FAIR_GROUP_SCHED.
        #[test]
        fn a_kernel_whose_tasks_know_no_queue_loads_all_the_same() {
            let path = std::env::temp_dir().join(format!("vmnoise-btf-{}", std::process::id()));
            std::fs::write(&path, btf_without("cfs_rq")).unwrap();
            let btf = KernelBtf::read().unwrap();
            let (loaded, warnings) = quietly(|| -> libbpf_rs::Result<Object> {
                let wants = |name: &str, probe: Option<Probe<'_>>| {
                    is_wanted(&btf, &GROUPS, true, name, probe)
                };
                let mut builder = ObjectBuilder::default();
                let builder = builder.btf_custom_path(&path)?;
                plan(&wants).open(builder)?.load()
            });
            std::fs::remove_file(&path).unwrap();
            assert!(loaded.is_ok(), "{:?}: {warnings}", loaded.err());
        }
    }
}
