//! Loads BPF objects, and attaches their programs.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Read};
use std::ops::Deref;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;
use std::sync::Arc;

use libbpf_rs::libbpf_sys::{BPF_PROG_TYPE_SOCKET_FILTER, bpf_insn, bpf_prog_load};
use libbpf_rs::{Iter, Link, Object, ObjectBuilder, OpenObject, ProgramMut, num_possible_cpus};
use vmnoise_host::{Capability, Host, Lockdown};

use crate::{
    accounting::misses_of,
    btf::KernelBtf,
    error::{LoadError, TraceError},
    joined_btf::JoinedBtf,
    log::quietly,
    probes::{Group, Probe},
};

/// Defines the module `generated` with the Rust types of a BPF object, and `OBJECT` with its
/// compiled programs.
macro_rules! compiled {
    ($name:literal) => {
        #[allow(
            clippy::all,
            clippy::undocumented_unsafe_blocks,
            clippy::unwrap_used,
            missing_debug_implementations,
            rust_2018_idioms,
            unsafe_op_in_unsafe_fn
        )]
        mod generated {
            include!(concat!(env!("OUT_DIR"), "/", $name, ".skel.rs"));
        }

        /// The compiled BPF programs.
        pub(super) static OBJECT: &[u8] =
            include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".bpf.o"));
    };
}
pub(crate) use compiled;

/// A BPF object that is not loaded yet: which programs are loaded, and with which settings.
pub(crate) struct ObjectPlan<'a> {
    /// Name by which the kernel shows the object's maps of variables.
    pub(crate) name: &'static str,
    /// The compiled programs.
    pub(crate) compiled: &'static [u8],
    /// Whether the programs read structures of KVM's module.
    pub(crate) reads_kvm: bool,
    /// Returns whether a program is loaded. Its arguments are the program's name and tracepoint.
    pub(crate) wants: &'a dyn Fn(&str, Option<Probe<'_>>) -> bool,
    /// Returns the number of entries of a map; `None` keeps the compiled number. Its arguments are
    /// the map's name and the number of CPUs.
    pub(crate) entries: &'a dyn Fn(&str, u32) -> Option<u32>,
    /// Content of `.rodata`; empty if the programs have no settings.
    pub(crate) settings: &'a [u8],
}

impl ObjectPlan<'_> {
    /// Loads the wanted programs. Nothing runs yet.
    pub(crate) fn load(&self) -> Result<Programs, LoadError> {
        let (result, warnings) = quietly(|| -> libbpf_rs::Result<Object> {
            let mut builder = ObjectBuilder::default();
            // The file with the types must exist until the object is loaded.
            let joined = match self.reads_kvm {
                true => JoinedBtf::of_kvm()?,
                false => None,
            };
            if let Some(joined) = &joined {
                builder.btf_custom_path(joined.path())?;
            }
            self.open(&mut builder)?.load()
        });
        let object = result.map_err(|error| why_not(&error, &warnings))?;
        Ok(Programs {
            links: Vec::new(),
            object: Arc::new(object),
        })
    }

    /// Opens the object, and applies the settings.
    pub(crate) fn open(&self, builder: &mut ObjectBuilder) -> libbpf_rs::Result<OpenObject> {
        let mut open = builder.name(self.name)?.open_memory(self.compiled)?;
        for mut program in open.progs_mut() {
            let name = program.name().to_string_lossy();
            let section = program.section().to_string_lossy();
            program.set_autoload((self.wants)(&name, Probe::from_section(&section)));
        }
        let cpus = u32::try_from(num_possible_cpus()?).unwrap_or(u32::MAX);
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy();
            if let Some(entries) = (self.entries)(&name, cpus) {
                map.set_max_entries(entries)?;
            } else if name.ends_with(".rodata") && !self.settings.is_empty() {
                map.set_initial_value(self.settings)?;
            }
        }
        Ok(open)
    }
}

/// The programs of a loaded object. Attached programs run until they are detached, or until this
/// value is dropped.
#[derive(Debug)]
pub(crate) struct Programs {
    // This field is dropped first, so that no program runs while the maps are dropped.
    links: Vec<Link>,
    object: Arc<Object>,
}

impl Programs {
    /// Returns the object, which may outlive the links.
    pub(crate) fn object(&self) -> Arc<Object> {
        Arc::clone(&self.object)
    }

    /// Returns all tracepoints for which the object has a program, loaded or not.
    pub(crate) fn hooked(&self) -> HashSet<String> {
        let sections = self.object.progs().filter_map(|it| it.section().to_str());
        let probes = sections.filter_map(Probe::from_section);
        probes.map(|probe| probe.tracepoint.to_owned()).collect()
    }

    /// Returns the loaded programs that have a tracepoint, each with its tracepoint.
    pub(crate) fn at_tracepoints(&self) -> impl Iterator<Item = (Probe<'_>, ProgramMut<'_>)> {
        let loaded = self.object.progs_mut().filter(|it| it.autoload());
        loaded.filter_map(|program| {
            let probe = Probe::from_section(program.section().to_str()?)?;
            Some((probe, program))
        })
    }

    /// Attaches all loaded programs that have a tracepoint.
    ///
    /// # Errors
    /// If a program cannot be attached. No program is attached then.
    pub(crate) fn attach(&mut self) -> Result<(), TraceError> {
        let attach = || -> libbpf_rs::Result<Vec<Link>> {
            let programs = self.at_tracepoints();
            programs.map(|(_, program)| program.attach()).collect()
        };
        let links = quietly(attach).0.map_err(|error| not_attached(&error))?;
        self.hold(links);
        Ok(())
    }

    /// Keeps these programs attached.
    pub(crate) fn hold(&mut self, links: Vec<Link>) {
        self.links = links;
    }

    pub(crate) fn is_attached(&self) -> bool {
        !self.links.is_empty()
    }

    pub(crate) fn detach(&mut self) {
        self.links.clear();
    }

    /// Attaches a program that walks over all tasks. Each [`walk`] runs it once.
    pub(crate) fn walker(&self, name: &str) -> libbpf_rs::Result<Link> {
        let mut programs = self.object.progs_mut();
        let program = programs.find(|program| program.name() == name);
        let program = program.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        program.attach()
    }

    /// Returns how many events the programs missed because a program was already running.
    pub(crate) fn missed(&self) -> io::Result<u64> {
        misses_of(self, &|_| true)
    }
}

impl Deref for Programs {
    type Target = Object;

    fn deref(&self) -> &Object {
        &self.object
    }
}

/// Returns the error of a failed attachment.
pub(crate) fn not_attached(error: &libbpf_rs::Error) -> TraceError {
    TraceError::NothingAttached(format!("{error:#}"))
}

/// Runs an attached iterator once. Returns the bytes that the program wrote.
pub(crate) fn walk(link: &Link) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut iter = Iter::new(link).map_err(io::Error::other)?;
    iter.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Function that loads exactly these groups. The flag is true on trial: the steal clock's programs
/// are then left out.
type Load<'a, Loaded> = dyn Fn(&[Group], bool) -> Result<Loaded, LoadError> + 'a;

/// Loads those of the given groups that this kernel supports. If loading all groups fails, this
/// function tries each group alone, and loads the groups that succeeded. If this fails too, it
/// loads these groups without the steal clock's programs. Also returns why each other group is
/// absent.
pub(crate) fn load_what_fits<Loaded>(
    btf: &KernelBtf,
    groups: &[Group],
    load: &Load<'_, Loaded>,
) -> Result<(Loaded, BTreeMap<Group, String>), LoadError> {
    let mut absent = BTreeMap::new();
    for &group in groups {
        if let Some(why) = group.missing(btf) {
            absent.insert(group, why);
        }
    }
    let wanted = |absent: &BTreeMap<Group, String>| -> Vec<Group> {
        groups
            .iter()
            .copied()
            .filter(|group| !absent.contains_key(group))
            .collect()
    };
    let loaded = match load(&wanted(&absent), false) {
        Ok(loaded) => loaded,
        Err(error @ LoadError::Refused { .. }) => return Err(error),
        Err(error) => {
            for group in wanted(&absent) {
                if let Err(why) = load(&[group], true) {
                    let why = group.misfit(btf).unwrap_or_else(|| why.to_string());
                    absent.insert(group, why);
                }
            }
            let rest = wanted(&absent);
            if rest.is_empty() {
                return Err(error);
            }
            load(&rest, false)
                .or_else(|_| load(&rest, true))
                .map_err(|_| error)?
        }
    };
    Ok((loaded, absent))
}

/// Returns the error of a failed load: `Refused` if this machine does not allow BPF, `Broken` if
/// the programs are faulty.
fn why_not(error: &libbpf_rs::Error, warnings: &str) -> LoadError {
    let host = Host::here();
    if host.lockdown() == Some(Lockdown::Confidentiality) {
        return LoadError::Refused {
            why: "kernel lockdown is in confidentiality mode, in which BPF may not read the \
                  kernel"
                .to_owned(),
            remedy: "boot with lockdown=integrity or lower".to_owned(),
        };
    }
    let capabilities = host.capabilities().unwrap_or_default();
    let may_load = capabilities.has(Capability::SysAdmin)
        || (capabilities.has(Capability::Bpf) && capabilities.has(Capability::Perfmon));
    if !may_load {
        return LoadError::Refused {
            why: "loading BPF programs needs CAP_BPF and CAP_PERFMON, which this process lacks"
                .to_owned(),
            remedy: "run as root, or grant both with setcap".to_owned(),
        };
    }
    let refused = try_bpf().err();
    let refused = refused.and_then(|refused| not_allowed(&refused, host.has_call_filter()));
    refused.unwrap_or_else(|| match warnings.is_empty() {
        true => LoadError::Broken(format!("{error:#}")),
        false => LoadError::Broken(format!("{error:#} ({warnings})")),
    })
}

/// Returns what keeps a process with the capabilities from using bpf(2); `None` if the call failed
/// for another reason.
fn not_allowed(refused: &io::Error, has_call_filter: bool) -> Option<LoadError> {
    let (why, remedy) = match (refused.raw_os_error()?, has_call_filter) {
        (libc::ENOSYS, false) => (
            "this kernel has no bpf(2)".to_owned(),
            "use a kernel with CONFIG_BPF_SYSCALL",
        ),
        (libc::EPERM | libc::EACCES | libc::ENOSYS, true) => (
            format!(
                "the seccomp filter of this container or service refuses bpf(2) ({refused}), although this process has the capabilities"
            ),
            "give it a profile that allows bpf(2) with CAP_BPF, or none: --security-opt seccomp=unconfined of podman and docker, seccompProfile: {type: Unconfined} of Kubernetes (docs/serve.md)",
        ),
        (libc::EPERM | libc::EACCES, false) => (
            format!(
                "a security module of this kernel (/sys/kernel/security/lsm names them) refuses bpf(2) ({refused}), although this process has the capabilities"
            ),
            "allow bpf(2) to this program in its policy; `dmesg` or the audit log names the rule",
        ),
        _ => return None,
    };
    let remedy = remedy.to_owned();
    Some(LoadError::Refused { why, remedy })
}

/// Tries to load a program that does nothing, to get an error number. libbpf-rs describes its own
/// errors only in words.
fn try_bpf() -> io::Result<()> {
    let nothing = [
        // r0 = 0, exit: BPF_MOV64_IMM and BPF_EXIT_INSN of linux/filter.h.
        bpf_insn {
            code: 0xb7,
            ..bpf_insn::default()
        },
        bpf_insn {
            code: 0x95,
            ..bpf_insn::default()
        },
    ];
    // SAFETY: the instructions and the licence live until the call returns, and the other pointers
    // may be null.
    let fd = unsafe {
        bpf_prog_load(
            BPF_PROG_TYPE_SOCKET_FILTER,
            ptr::null(),
            c"GPL".as_ptr(),
            nothing.as_ptr(),
            nothing.len() as u64,
            ptr::null_mut(),
        )
    };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the descriptor is new, and no other code owns it.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The groups that were loaded, with whether the steal clock's programs were loaded. The second
    /// part has the absent groups.
    type Found = (Option<(Vec<Group>, bool)>, Vec<Group>);

    /// Loads all groups in a simulation. `broken` are groups that never load. `steal_works`:
    /// whether the steal clock's programs load.
    fn loaded(broken: &[Group], steal_works: bool) -> Found {
        let load = |groups: &[Group], is_trial: bool| {
            let is_broken = groups.iter().any(|group| broken.contains(group));
            match is_broken || !(is_trial || steal_works) {
                true => Err(LoadError::Broken("refused".to_owned())),
                false => Ok((groups.to_vec(), !is_trial)),
            }
        };
        let btf = KernelBtf::read().unwrap();
        match load_what_fits(&btf, &ALL, &load) {
            Ok((loaded, absent)) => (Some(loaded), absent.into_keys().collect()),
            Err(_) => (None, vec![]),
        }
    }

    const ALL: [Group; 3] = [Group::Irq, Group::Sched, Group::Nmi];

    #[test]
    fn what_does_not_load_costs_nothing_else() {
        assert_eq!(loaded(&[], true), (Some((ALL.to_vec(), true)), vec![]));
        let rest = vec![Group::Irq, Group::Nmi];
        assert_eq!(
            loaded(&[Group::Sched], true),
            (Some((rest.clone(), true)), vec![Group::Sched])
        );
        assert_eq!(loaded(&[], false), (Some((ALL.to_vec(), false)), vec![]));
        assert_eq!(
            loaded(&[Group::Sched], false),
            (Some((rest, false)), vec![Group::Sched])
        );
        assert_eq!(loaded(&ALL, true).0, None);
    }

    #[test]
    fn who_refuses_is_named_with_what_helps() {
        let said = |errno, has_call_filter| {
            let refused = io::Error::from_raw_os_error(errno);
            let named = not_allowed(&refused, has_call_filter);
            named.map_or("nobody".to_owned(), |named| named.to_string())
        };
        for errno in [libc::EPERM, libc::ENOSYS] {
            assert!(said(errno, true).contains("seccomp=unconfined"));
        }
        for errno in [libc::EPERM, libc::EACCES] {
            assert!(said(errno, false).contains("security module"));
        }
        assert!(said(libc::ENOSYS, false).contains("CONFIG_BPF_SYSCALL"));
        for has_call_filter in [false, true] {
            assert_eq!(said(libc::ENOMEM, has_call_filter), "nobody");
        }
    }

    mod root {
        use super::*;

        #[test]
        fn a_program_that_does_nothing_is_taken() {
            assert!(try_bpf().is_ok());
        }
    }
}
