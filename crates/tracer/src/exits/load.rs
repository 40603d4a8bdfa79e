//! Opens the programs that count exits, and loads those that this kernel can run. The maps have
//! room for a given number of vCPUs.

use std::collections::{BTreeMap, HashSet};

use libbpf_rs::{Object, ObjectBuilder};

use super::{REASONS, Streaming, wire};
use crate::btf::KernelBtf;
use crate::error::LoadError;
use crate::log::quietly;
use crate::object::{load_what_fits, why_not};
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

/// The loaded object, and the reasons why groups are absent.
pub(super) struct Loaded {
    pub(super) object: Object,
    pub(super) absent: BTreeMap<Group, String>,
    /// All tracepoints for which the object has a program.
    pub(super) hooked: HashSet<String>,
}

impl Plan {
    /// Returns the groups that observe exits. Under kvm_pvm, the tracepoints of the last group
    /// exist but never fire.
    pub(super) fn groups() -> &'static [Group] {
        &Group::ALL[..7]
    }

    /// Loads the groups that this kernel supports.
    pub(super) fn load(self, btf: &KernelBtf) -> Result<Loaded, LoadError> {
        let load = |groups: &[Group], _is_trial| self.load_groups(btf, groups);
        let ((object, hooked), absent) = load_what_fits(btf, Self::groups(), &load)?;
        if let Some((group, why)) = self.lacks(&absent) {
            return Err(LoadError::Refused {
                why: format!("{why}: exits cannot be counted"),
                remedy: group.remedy().to_owned(),
            });
        }
        Ok(Loaded {
            object,
            absent,
            hooked,
        })
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
    fn load_groups(
        self,
        btf: &KernelBtf,
        groups: &[Group],
    ) -> Result<(Object, HashSet<String>), LoadError> {
        let (result, warnings) = quietly(|| {
            let mut hooked = HashSet::new();
            let mut open = ObjectBuilder::default()
                .name("vmnoise_exits")?
                .open_memory(wire::OBJECT)?;
            for mut program in open.progs_mut() {
                let name = program.name().to_string_lossy().into_owned();
                let section = program.section().to_string_lossy().into_owned();
                let wanted = Probe::from_section(&section).is_none_or(|probe| {
                    hooked.insert(probe.tracepoint.to_owned());
                    groups.contains(&probe.group) && probe.fits(&name, btf)
                });
                program.set_autoload(wanted && self.needs(&name));
            }
            let cpus = u32::try_from(libbpf_rs::num_possible_cpus()?).unwrap_or(u32::MAX);
            for mut map in open.maps_mut() {
                match map.name().to_str() {
                    Some("exit_cpus") => map.set_max_entries(cpus)?,
                    // Index 0 is not used for a vCPU.
                    Some("vcpus") => map.set_max_entries(self.vcpus + 1)?,
                    Some("free_places" | "newcomers" | "ended") => {
                        map.set_max_entries(self.vcpus)?;
                    }
                    Some("threads") => map.set_max_entries(self.vcpus + THREADS)?,
                    Some("records") => map.set_max_entries(self.streaming.ring_bytes())?,
                    Some("reasons") => map.set_max_entries((self.vcpus + 1) * REASONS as u32)?,
                    Some(name) if name.ends_with(".rodata") => {
                        let settings =
                            wire::settings(self.kvm_run_only, self.preempt_rt, self.streaming);
                        map.set_initial_value(&settings)?;
                    }
                    _ => {}
                }
            }
            Ok((open.load()?, hooked))
        });
        result.map_err(|error: libbpf_rs::Error| why_not(&error, &warnings))
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
