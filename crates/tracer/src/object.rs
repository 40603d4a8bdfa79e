//! Opens the BPF object, and loads the groups of programs that this kernel can run.

use std::collections::{BTreeMap, HashSet};
use std::os::fd::{FromRawFd, OwnedFd};
use std::{io, ptr};

use libbpf_rs::libbpf_sys::{BPF_PROG_TYPE_SOCKET_FILTER, bpf_insn, bpf_prog_load};
use libbpf_rs::{Object, ObjectBuilder, OpenObject, num_possible_cpus};
use vmnoise_host::{Capability, Host, Lockdown};

use crate::{
    btf::KernelBtf,
    error::LoadError,
    log::quietly,
    probes::{Group, Probe},
    wire,
};

/// Programs that read the steal clock. They have no tracepoint, and belong to no group.
const STEAL_PROGRAMS: [&str; 3] = ["find_run_queues", "read_steal", "read_own_steal"];

/// The loaded object, and the reasons why groups are absent.
pub(crate) struct Loaded {
    pub(crate) object: Object,
    pub(crate) absent: BTreeMap<Group, String>,
    /// All tracepoints for which the object has a program.
    pub(crate) hooked: HashSet<String>,
}

/// Loads those of the given groups that this kernel supports. `steal`: whether the steal clock's
/// programs are loaded too.
pub(crate) fn load(btf: &KernelBtf, groups: &[Group], steal: bool) -> Result<Loaded, LoadError> {
    let ((object, hooked), absent) = load_what_fits(btf, groups, &|groups, is_trial| {
        load_groups(btf, groups, steal && !is_trial)
    })?;
    Ok(Loaded {
        object,
        absent,
        hooked,
    })
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

/// Loads exactly these groups, and the steal clock's programs if `steal` is true.
fn load_groups(
    btf: &KernelBtf,
    groups: &[Group],
    steal: bool,
) -> Result<(Object, HashSet<String>), LoadError> {
    let (result, warnings) = quietly(|| {
        let mut open = ObjectBuilder::default()
            .name("vmnoise")?
            .open_memory(wire::OBJECT)?;
        let hooked = choose_programs(&mut open, btf, groups, steal);
        let cpus = u32::try_from(num_possible_cpus()?).unwrap_or(u32::MAX);
        for mut map in open.maps_mut() {
            if map.name() == "cpus" || map.name() == "exits" {
                map.set_max_entries(cpus)?;
            }
        }
        Ok((open.load()?, hooked))
    });
    result.map_err(|error: libbpf_rs::Error| why_not(&error, &warnings))
}

fn choose_programs(
    open: &mut OpenObject,
    btf: &KernelBtf,
    groups: &[Group],
    steal: bool,
) -> HashSet<String> {
    let mut hooked = HashSet::new();
    for mut program in open.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        let section = program.section().to_string_lossy().into_owned();
        let wanted = match Probe::from_section(&section) {
            Some(probe) => {
                hooked.insert(probe.tracepoint.to_owned());
                groups.contains(&probe.group) && probe.fits(&name, btf)
            }
            None => steal && STEAL_PROGRAMS.contains(&name.as_str()),
        };
        program.set_autoload(wanted);
    }
    hooked
}

/// Returns the error of a failed load: `Refused` if this machine does not allow BPF, `Broken` if
/// the programs are faulty.
pub(crate) fn why_not(error: &libbpf_rs::Error, warnings: &str) -> LoadError {
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
            let (loaded, warnings) = quietly(|| -> libbpf_rs::Result<Object> {
                let mut open = ObjectBuilder::default()
                    .btf_custom_path(&path)?
                    .open_memory(wire::OBJECT)?;
                choose_programs(&mut open, &KernelBtf::read()?, &ALL, true);
                open.load()
            });
            std::fs::remove_file(&path).unwrap();
            assert!(loaded.is_ok(), "{:?}: {warnings}", loaded.err());
        }
    }
}
