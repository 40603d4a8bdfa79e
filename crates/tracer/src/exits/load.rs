//! Opens the programs that count exits, and loads those that this kernel can run. The maps have
//! room for a given number of vCPUs.

use std::collections::BTreeMap;

use super::{REASONS, Streaming, wire};
use crate::btf::KernelBtf;
use crate::error::LoadError;
use crate::object::{ObjectPlan, Programs, load_what_fits};
use crate::probes::{Group, Probe};

/// Name of the program that reports when a guest's clock changed.
pub(super) const TSC_WRITES: &str = "kvm_write_tsc_offset";
/// Largest number of threads in the table `threads`. It includes threads without room for their
/// vCPU, so that each of them is counted only once.
const THREADS: u32 = 16_384;

/// Decisions that are made before loading.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// Number of slots for vCPUs.
    pub(super) vcpus: u32,
    pub(super) streaming: Streaming,
    pub(super) kvm_run_only: bool,
    pub(super) preempt_rt: bool,
}

impl Plan {
    /// Returns the groups that observe exits. Under kvm_pvm, the tracepoints of the last group
    /// exist but never fire.
    pub(super) fn groups() -> &'static [Group] {
        &Group::ALL[..7]
    }

    /// Loads the groups that this kernel supports. Also returns why each other group is absent.
    pub(super) fn load(
        self,
        btf: &KernelBtf,
    ) -> Result<(Programs, BTreeMap<Group, String>), LoadError> {
        let load = |groups: &[Group], _is_trial| self.load_groups(btf, groups);
        let (programs, absent) = load_what_fits(btf, Self::groups(), &load)?;
        if let Some((group, why)) = self.lacks(&absent) {
            return Err(LoadError::Refused {
                why: format!("{why}: exits cannot be counted"),
                remedy: group.remedy().to_owned(),
            });
        }
        Ok((programs, absent))
    }

    /// Returns a required group that is absent, and why; `None` if none is absent. Switches are
    /// required, because without them exits of one VM could be counted for another VM.
    pub(super) fn lacks(self, absent: &BTreeMap<Group, String>) -> Option<(Group, &String)> {
        let mut needed = [Group::KvmRun, Group::KvmExit, Group::Sched]
            .into_iter()
            .filter(|&group| !(self.kvm_run_only && group == Group::KvmExit));
        needed.find_map(|group| Some((group, absent.get(&group)?)))
    }

    /// Loads exactly these groups.
    fn load_groups(self, btf: &KernelBtf, groups: &[Group]) -> Result<Programs, LoadError> {
        let wants = |name: &str, probe: Option<Probe<'_>>| {
            let fits = |probe: Probe<'_>| groups.contains(&probe.group) && probe.fits(name, btf);
            probe.is_none_or(fits) && self.needs(name)
        };
        ObjectPlan {
            name: "vmnoise_exits",
            compiled: wire::OBJECT,
            reads_kvm: false,
            wants: &wants,
            entries: &|map, cpus| self.entries(map, cpus),
            settings: &wire::settings(self.kvm_run_only, self.preempt_rt, self.streaming),
        }
        .load()
    }

    fn entries(self, map: &str, cpus: u32) -> Option<u32> {
        Some(match map {
            "exit_cpus" => cpus,
            // Index 0 is not used for a vCPU.
            "vcpus" => self.vcpus + 1,
            "free_places" | "newcomers" | "ended" => self.vcpus,
            "threads" => self.vcpus + THREADS,
            "records" => self.streaming.ring_bytes(),
            "reasons" => (self.vcpus + 1) * REASONS as u32,
            _ => return None,
        })
    }

    fn needs(self, program: &str) -> bool {
        match program {
            // If kvm_exit fires, it reports the reasons, and `kvm_userspace_exit` is not needed.
            "kvm_userspace_exit" | "kvm_fpu_alone" => self.kvm_run_only,
            "kvm_fpu" => !self.kvm_run_only,
            // This event fires for all VMs. Only `Exits` needs the writes of all VMs.
            TSC_WRITES => matches!(self.streaming, Streaming::Exits { .. }),
            _ => true,
        }
    }
}
