//! Facts from the running kernel's type information (BTF). They are the existing tracepoints, the
//! number of their arguments, and the location of the steal clock.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    fs,
    path::Path,
};

use libbpf_rs::{
    Btf,
    btf::{
        BtfKind, BtfType, ReferencesType, TypeId,
        types::{DataSec, FuncProto, Ptr, Struct, Typedef},
    },
};

use crate::error::LoadError;
use crate::joined_btf::{JoinedBtf, Sections};
use vmnoise_host::{Capability, Host};

/// Address of each per-CPU variable minus the address of `runqueues`, modulo 2^64.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MinusRunQueue {
    pub(crate) steal_time: Option<u64>,
    pub(crate) xen_runstate: Option<u64>,
}

/// Facts from the kernel's BTF.
#[derive(Debug, Default)]
pub(crate) struct KernelBtf {
    /// Tracepoints by name. The value is the number of arguments, or `None` for a tracepoint of a
    /// module.
    tracepoints: HashMap<String, Option<usize>>,
    /// Tracepoints of modules whose type information this process may not read.
    hidden: HashSet<String>,
    pub(crate) minus_run_queue: MinusRunQueue,
    /// Whether real-time tasks are throttled by group (CONFIG_RT_GROUP_SCHED).
    pub(crate) rt_group_sched: bool,
    /// Whether the kernel stores when a task began to wait (CONFIG_SCHED_INFO).
    pub(crate) sched_info: bool,
    /// Structures of [`VCPU_STRUCTURES`] that the BTF of this kernel or its modules describes.
    vcpu_structures: HashSet<&'static str>,
}

/// Structures of a vCPU. `kvm_vcpu` is KVM's own. Vendor modules store the reason of the last exit
/// in the others.
const VCPU_STRUCTURES: [&str; 3] = ["kvm_vcpu", "vcpu_svm", "vcpu_vmx"];

impl KernelBtf {
    /// Reads the kernel's BTF, and the names of tracepoints in the BTF of KVM's modules.
    pub(crate) fn read() -> Result<KernelBtf, LoadError> {
        let btf = Btf::from_vmlinux().map_err(|error| no_btf(&error))?;
        let mut facts = KernelBtf::default();
        let mut per_cpu = HashMap::<TypeId, &'static str>::new();
        let mut sections = Vec::new();
        for ty in btf.type_by_kind::<BtfType<'_>>() {
            match (ty.kind(), ty.name().map(OsStr::as_encoded_bytes)) {
                (BtfKind::Typedef, Some(name)) => {
                    if let Some(name) = name.strip_prefix(b"btf_trace_") {
                        let name = String::from_utf8_lossy(name).into_owned();
                        facts.tracepoints.insert(name, argument_count(ty));
                    }
                }
                (BtfKind::Var, Some(b"runqueues")) => {
                    per_cpu.insert(ty.type_id(), "runqueues");
                }
                (BtfKind::Var, Some(b"steal_time")) => {
                    per_cpu.insert(ty.type_id(), "steal_time");
                }
                (BtfKind::Var, Some(b"xen_runstate")) => {
                    per_cpu.insert(ty.type_id(), "xen_runstate");
                }
                (BtfKind::DataSec, Some(b".data..percpu")) => {
                    sections.extend(DataSec::try_from(ty).ok());
                }
                (BtfKind::Struct, Some(b"sched_rt_entity")) => {
                    facts.rt_group_sched = has_member(ty, "my_q");
                }
                (BtfKind::Struct, Some(b"sched_info")) => {
                    facts.sched_info = has_member(ty, "last_queued");
                }
                (BtfKind::Struct, Some(name)) => facts.note_vcpu_structure(name),
                _ => {}
            }
        }
        let offsets: HashMap<&str, u32> = sections
            .iter()
            .flat_map(|section| section.iter())
            .filter_map(|var| Some((*per_cpu.get(&var.ty)?, var.offset)))
            .collect();
        facts.minus_run_queue = MinusRunQueue {
            steal_time: minus_run_queue(&offsets, "steal_time"),
            xen_runstate: minus_run_queue(&offsets, "xen_runstate"),
        };
        let shows_modules = Host::here()
            .capabilities()
            .is_some_and(|held| held.has(Capability::SysAdmin));
        for module in ["kvm", "kvm_intel", "kvm_amd", "kvm_pvm"] {
            let Ok(bytes) = fs::read(Path::new("/sys/kernel/btf").join(module)) else {
                continue;
            };
            for name in names_in_module(&bytes) {
                facts.note_vcpu_structure(name);
                if let Some(tracepoint) = name.strip_prefix(b"btf_trace_") {
                    let tracepoint = String::from_utf8_lossy(tracepoint).into_owned();
                    match shows_modules {
                        true => _ = facts.tracepoints.entry(tracepoint).or_insert(None),
                        false => _ = facts.hidden.insert(tracepoint),
                    }
                }
            }
        }
        Ok(facts)
    }

    /// Returns the facts of this kernel without a tracepoint.
    #[cfg(test)]
    pub(crate) fn without(mut self, tracepoint: &str) -> KernelBtf {
        self.tracepoints.remove(tracepoint);
        self
    }

    fn note_vcpu_structure(&mut self, name: &[u8]) {
        let mut all = VCPU_STRUCTURES.into_iter();
        self.vcpu_structures
            .extend(all.find(|it| it.as_bytes() == name));
    }

    /// Returns whether the BTF of this kernel or its modules describes this structure of a vCPU.
    pub(crate) fn has_vcpu_structure(&self, name: &str) -> bool {
        self.vcpu_structures.contains(name)
    }

    /// Returns whether `tp_btf/name` can be attached.
    pub(crate) fn has_tracepoint(&self, name: &str) -> bool {
        self.tracepoints.contains_key(name)
    }

    /// Returns why `tp_btf/name` cannot be attached; `None` if it can be attached.
    pub(crate) fn why_not(&self, name: &str) -> Option<String> {
        match (self.has_tracepoint(name), self.hidden.contains(name)) {
            (true, _) => None,
            (false, true) => Some(format!(
                "the tracepoint {name} belongs to a module, which needs CAP_SYS_ADMIN"
            )),
            (false, false) => Some(format!("this kernel has no tracepoint {name}")),
        }
    }

    /// Returns the number of arguments of a tracepoint; `None` unless the core kernel has the
    /// tracepoint.
    pub(crate) fn arguments(&self, name: &str) -> Option<usize> {
        self.tracepoints.get(name).copied().flatten()
    }

    /// Returns the number of arguments of a KVM tracepoint, whether KVM is a module or built in.
    /// For a module, reads all type information once more.
    pub(crate) fn kvm_arguments(&self, name: &str) -> Option<usize> {
        self.arguments(name).or_else(|| {
            let joined = JoinedBtf::of_kvm().ok().flatten()?;
            let btf = Btf::from_path(joined.path()).ok()?;
            let typedef = btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{name}"))?;
            arguments_of(typedef)
        })
    }
}

fn no_btf(error: &libbpf_rs::Error) -> LoadError {
    LoadError::Refused {
        why: format!("the kernel's type information (BTF) cannot be read: {error:#}"),
        remedy: "use a kernel with CONFIG_DEBUG_INFO_BTF, and mount /sys".to_owned(),
    }
}

fn has_member(ty: BtfType<'_>, name: &str) -> bool {
    let of = |it: Struct<'_>| it.iter().any(|it| it.name == Some(OsStr::new(name)));
    Struct::try_from(ty).is_ok_and(of)
}

/// Returns the address of a per-CPU variable minus the address of `runqueues`, modulo 2^64.
fn minus_run_queue(offsets: &HashMap<&str, u32>, variable: &str) -> Option<u64> {
    let offset = |name| offsets.get(name).copied().map(u64::from);
    Some(offset(variable)?.wrapping_sub(offset("runqueues")?))
}

/// Returns the number of arguments, without the first parameter. Every tracepoint probe has a `void
/// *` as its first parameter.
fn argument_count(typedef: BtfType<'_>) -> Option<usize> {
    arguments_of(Typedef::try_from(typedef).ok()?)
}

fn arguments_of(typedef: Typedef<'_>) -> Option<usize> {
    let pointer = Ptr::try_from(typedef.referenced_type()).ok()?;
    let probe = FuncProto::try_from(pointer.referenced_type()).ok()?;
    probe.iter().count().checked_sub(1)
}

/// Returns the strings of a module's BTF. The module's BTF extends the kernel's BTF, but has
/// strings of its own. It contains `btf_trace_NAME` exactly if the module has the tracepoint, and
/// `vcpu_svm` exactly if the module has the structure.
fn names_in_module(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let strings = Sections::of(bytes).map(|sections| sections.strings);
    strings.unwrap_or_default().split(|&byte| byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_string_section() {
        let mut module = vec![0; 24];
        module[4..8].copy_from_slice(&24_u32.to_ne_bytes());
        module[16..20].copy_from_slice(&3_u32.to_ne_bytes());
        let strings = b"\0btf_trace_kvm_exit\0kvm_vcpu\0btf_trace_kvm_entry\0";
        module[20..24].copy_from_slice(&(strings.len() as u32).to_ne_bytes());
        module.extend(b"xyz");
        module.extend(strings);
        let names = names_in_module(&module).filter(|name| !name.is_empty());
        let all: [&[u8]; 3] = [b"btf_trace_kvm_exit", b"kvm_vcpu", b"btf_trace_kvm_entry"];
        assert!(names.eq(all));
    }

    #[test]
    fn a_cut_module_gives_no_names() {
        for cut in [&[][..], &[255; 24]] {
            assert!(names_in_module(cut).all(<[u8]>::is_empty));
        }
    }

    #[test]
    fn a_variable_lies_before_or_behind_the_run_queues() {
        // The offsets of Debian's 6.12.107+deb13-rt-amd64.
        let offsets = HashMap::from([
            ("xen_runstate", 210_176),
            ("runqueues", 224_512),
            ("steal_time", 233_600),
        ]);
        let run_queue = 0xffff_8880_3ec3_6d00_u64;
        let address = |name| minus_run_queue(&offsets, name).map(|it| run_queue.wrapping_add(it));
        assert_eq!(address("steal_time"), Some(run_queue + 9_088));
        assert_eq!(address("xen_runstate"), Some(run_queue - 14_336));
        assert_eq!(address("nobody"), None);
        assert_eq!(minus_run_queue(&HashMap::new(), "xen_runstate"), None);
    }

    #[test]
    fn this_kernel_has_a_scheduler() {
        let btf = KernelBtf::read().unwrap();
        assert!(btf.has_tracepoint("sched_waking"));
        assert!(!btf.has_tracepoint("sched_dreaming"));
        assert!(matches!(btf.arguments("sched_switch"), Some(3 | 4)));
    }
}
