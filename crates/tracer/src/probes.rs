//! Groups of tracepoints that belong together, and what each group can and cannot show.

use std::{
    collections::{BTreeSet, HashSet},
    fs,
    path::Path,
};

use vmnoise_events::{ProbeName, ProbeStatus};

use crate::btf::KernelBtf;
use vmnoise_host::Host;

/// Facts about the kernel on which the limits of a group depend.
pub(crate) struct Kernel {
    /// Interrupt vectors that have a tracepoint, but no program.
    pub(crate) unhooked_vectors: BTreeSet<String>,
    pub(crate) kvm_pvm: bool,
    /// Whether KVM's structures show the reason of an exit.
    pub(crate) has_reasons: bool,
    /// Whether KVM posts interrupts, which have no tracepoint
    /// ([`vmnoise_host::Host::posts_interrupts`]).
    pub(crate) posted_interrupts: bool,
    /// Whether the kernel is older than 5.18. The number of arguments of its tracepoints shows
    /// this.
    pub(crate) before_5_18: bool,
}

impl Kernel {
    /// Reads the facts that all tracers need. `hooked` has all tracepoints for which the object has
    /// a program.
    pub(crate) fn of(
        host: &Host,
        btf: &KernelBtf,
        hooked: &HashSet<String>,
        kvm_pvm: bool,
    ) -> Kernel {
        Kernel {
            unhooked_vectors: unhooked_vectors(hooked, &TRACEFS.map(Path::new)),
            kvm_pvm,
            has_reasons: true,
            posted_interrupts: host.posts_interrupts(),
            before_5_18: btf.arguments("sched_switch") == Some(3),
        }
    }
}

/// Programs that are useful only together. They are loaded and attached together, or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Group {
    Irq,
    Softirq,
    Nmi,
    Sched,
    Follow,
    KvmRun,
    KvmExit,
    Timer,
}

/// Kind of the watched threads. It decides which programs observe them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// vCPUs of a guest of this machine. KVM's work for them is observed too.
    Vcpus,
    /// Ordinary threads that run all the time. Only interrupts, tasks and steal time are observed.
    Osnoise,
    /// Existing threads of other programs, which sleep and move between CPUs. Only time that they
    /// lose is reported.
    Observed,
    /// Ordinary threads that wake up by timers.
    Timerlat,
}

impl Scope {
    pub(crate) fn groups(self) -> &'static [Group] {
        match self {
            Scope::Vcpus => &[
                Group::Irq,
                Group::Softirq,
                Group::Nmi,
                Group::Sched,
                Group::KvmRun,
                Group::KvmExit,
            ],
            Scope::Osnoise => &Group::ALL[..4],
            Scope::Observed => &Group::ALL[..5],
            Scope::Timerlat => &[
                Group::Irq,
                Group::Softirq,
                Group::Nmi,
                Group::Sched,
                Group::Timer,
            ],
        }
    }
}

impl Group {
    /// All groups. The groups that ordinary threads need come first. The group for periodic threads
    /// comes last.
    pub(crate) const ALL: [Group; 8] = [
        Group::Irq,
        Group::Softirq,
        Group::Nmi,
        Group::Sched,
        Group::Follow,
        Group::KvmRun,
        Group::KvmExit,
        Group::Timer,
    ];

    /// Returns the name by which results refer to the group.
    pub(crate) const fn probe(self) -> &'static str {
        let name = match self {
            Group::Irq => ProbeName::Irq,
            Group::Softirq => ProbeName::Softirq,
            Group::Nmi => ProbeName::Nmi,
            Group::Sched => ProbeName::Sched,
            Group::Follow => ProbeName::Follow,
            Group::KvmRun => ProbeName::KvmRun,
            Group::KvmExit => ProbeName::KvmExit,
            Group::Timer => ProbeName::Timer,
        };
        name.name()
    }

    /// Returns the group of the program that is attached to this tracepoint.
    fn of(tracepoint: &str) -> Group {
        match tracepoint {
            "softirq_entry" | "softirq_exit" => Group::Softirq,
            "nmi_handler" => Group::Nmi,
            "sched_switch" | "sched_waking" | "sched_process_exit" => Group::Sched,
            "sched_wakeup" | "sched_migrate_task" => Group::Follow,
            "kvm_fpu" | "kvm_userspace_exit" | "kvm_vcpu_wakeup" | "kvm_write_tsc_offset" => {
                Group::KvmRun
            }
            "kvm_exit" | "kvm_entry" => Group::KvmExit,
            "hrtimer_start" | "hrtimer_expire_entry" => Group::Timer,
            // The tracepoints irq_handler_*, and all tracepoints of irq_vectors.
            _ => Group::Irq,
        }
    }

    /// Returns the tracepoints that the group requires.
    const fn needs(self) -> &'static [&'static str] {
        match self {
            Group::Irq => &["irq_handler_entry", "irq_handler_exit"],
            Group::Softirq => &["softirq_entry", "softirq_exit"],
            Group::Nmi => &["nmi_handler"],
            Group::Sched => &["sched_switch", "sched_waking", "sched_process_exit"],
            Group::Follow => &["sched_wakeup", "sched_migrate_task"],
            Group::KvmRun => &["kvm_fpu", "kvm_userspace_exit"],
            Group::KvmExit => &["kvm_exit", "kvm_entry"],
            Group::Timer => &["hrtimer_start", "hrtimer_expire_entry"],
        }
    }

    /// Returns why a required tracepoint cannot be attached; `None` if all of them can be attached.
    pub(crate) fn missing(self, btf: &KernelBtf) -> Option<String> {
        self.needs().iter().find_map(|name| btf.why_not(name))
    }

    /// Returns why the group's programs cannot load on this kernel; `None` if only the verifier can
    /// find this out.
    pub(crate) fn misfit(self, btf: &KernelBtf) -> Option<String> {
        match self {
            Group::KvmExit => older_kvm_exit(btf.kvm_arguments("kvm_exit")?),
            _ => None,
        }
    }

    /// Returns what a run cannot show without the group.
    pub(crate) const fn loss(self) -> &'static str {
        match self {
            Group::Irq => "interrupts of the host cannot be distinguished from other causes",
            Group::Softirq => "softirqs of the host cannot be distinguished from other causes",
            Group::Nmi => "NMIs of the host cannot be distinguished from other causes",
            Group::Sched => {
                "the task that ran instead, and the waker of a sleeping vCPU, are unknown"
            }
            Group::Follow => "the waits of the thread after a wake-up or a migration are unknown",
            Group::KvmRun => "time in the VMM, and exits to the VMM, are unknown",
            Group::KvmExit => "exits handled in the host kernel are unknown",
            Group::Timer => "the times at which a timer was set and its interrupt came are unknown",
        }
    }

    /// Returns what the user can do to get the group.
    pub(crate) const fn remedy(self) -> &'static str {
        match self {
            Group::KvmRun | Group::KvmExit => {
                "load the KVM module before vmnoise starts, and run vmnoise as root"
            }
            _ => "use a kernel with CONFIG_FTRACE and its tracepoints",
        }
    }

    /// Returns what a group cannot show even if it works.
    pub(crate) fn limit(self, kernel: &Kernel) -> String {
        match self {
            Group::Irq => {
                let posted = kernel.posted_interrupts.then(|| POSTED.to_owned());
                let unhooked = of_unhooked_vectors(&kernel.unhooked_vectors);
                let limits = unhooked.into_iter().chain(posted);
                limits.collect::<Vec<_>>().join("; ")
            }
            Group::Sched if kernel.before_5_18 => {
                "best effort: sched_switch has the arguments of kernels before 5.18, and vmnoise \
                 is tested on 6.1 and later"
                    .to_owned()
            }
            Group::Nmi => {
                "a lower bound: only the handlers are timed, not entry and exit".to_owned()
            }
            Group::KvmExit if kernel.kvm_pvm => {
                "kvm_exit and kvm_entry exist, but never fire under kvm_pvm: exits handled in the \
                 host kernel are unknown"
                    .to_owned()
            }
            Group::KvmExit if !kernel.has_reasons => {
                "exit reasons are unknown: KVM's module has no BTF".to_owned()
            }
            _ => String::new(),
        }
    }

    /// Returns the status of this group. `absent` is the reason why it is missing; `None` if it
    /// works.
    pub(crate) fn probe_status(self, absent: Option<&str>, limit: String) -> ProbeStatus {
        let (probe_status, limit, remedy) = match absent {
            None => ("tp_btf", limit, String::new()),
            Some(why) => (
                "none",
                format!("{why}: {}", self.loss()),
                self.remedy().to_owned(),
            ),
        };
        let best = absent.is_none();
        ProbeStatus {
            probe: self.probe().into(),
            in_use: probe_status.into(),
            best,
            limit: limit.into(),
            remedy: remedy.into(),
        }
    }
}

/// A program of the object, identified by its section name.
pub(crate) struct Probe<'a> {
    pub(crate) group: Group,
    pub(crate) tracepoint: &'a str,
}

impl<'a> Probe<'a> {
    /// Parses a section name; returns `None` for a program without a tracepoint.
    pub(crate) fn from_section(section: &'a str) -> Option<Probe<'a>> {
        let tracepoint = section.strip_prefix("tp_btf/")?;
        Some(Probe {
            group: Group::of(tracepoint),
            tracepoint,
        })
    }

    /// Returns whether this kernel has the tracepoint in the form that `program` expects. A
    /// tracepoint of a pair also requires the other tracepoint of the pair.
    pub(crate) fn fits(&self, program: &str, btf: &KernelBtf) -> bool {
        let partner = match self.tracepoint.strip_suffix("_entry") {
            Some(word) => format!("{word}_exit"),
            None => match self.tracepoint.strip_suffix("_exit") {
                Some(word) => format!("{word}_entry"),
                None => self.tracepoint.to_owned(),
            },
        };
        let form = match program {
            "sched_switch" => btf.arguments("sched_switch") == Some(4),
            "sched_switch_before_5_18" => btf.arguments("sched_switch") == Some(3),
            _ => true,
        };
        // kvm_userspace_exit and sched_process_exit have no partner.
        let is_alone = matches!(self.group, Group::KvmRun | Group::Sched);
        let paired = is_alone || btf.has_tracepoint(&partner);
        form && paired && btf.has_tracepoint(self.tracepoint)
    }
}

/// Returns why kvm_exit of an older kernel does not fit. Until Linux 5.15 its arguments were
/// (exit_reason, vcpu, isa).
fn older_kvm_exit(arguments: usize) -> Option<String> {
    (arguments == 3).then(|| {
        "kvm_exit has the arguments of kernels before Linux 5.16, which vmnoise cannot read: use \
         Linux 5.16 or newer; 6.1 and later are tested"
            .to_owned()
    })
}

/// Limit of a run on a host with [`vmnoise_host::Host::posts_interrupts`].
const POSTED: &str = "KVM's posted interrupts have no tracepoint (PIN, NPI and PIW of \
                      /proc/interrupts): time is hw only while these counts stand still";

/// Usual mount points of tracefs.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Returns the pairs of irq_vectors in tracefs for which no program exists. Empty if tracefs is not
/// mounted.
fn unhooked_vectors(hooked: &HashSet<String>, tracefs: &[&Path]) -> BTreeSet<String> {
    tracefs
        .iter()
        .flat_map(|tracefs| fs::read_dir(tracefs.join("events/irq_vectors")))
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with("_entry") && !hooked.contains(name))
        .collect()
}

/// Returns a sentence with the names of these vectors; `None` if there are none.
fn of_unhooked_vectors(unhooked: &BTreeSet<String>) -> Option<String> {
    if unhooked.is_empty() {
        return None;
    }
    let list: Vec<&str> = unhooked.iter().map(String::as_str).collect();
    Some(format!(
        "these interrupt vectors of this kernel have no probe: {}; the residual is hv_or_hw, never hw",
        list.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::watched::Watched;

    fn kernel() -> Kernel {
        Kernel {
            unhooked_vectors: BTreeSet::new(),
            kvm_pvm: false,
            has_reasons: true,
            posted_interrupts: false,
            before_5_18: false,
        }
    }

    #[test]
    fn older_arguments_are_a_limit_of_tasks_alone() {
        for before_5_18 in [false, true] {
            let kernel = Kernel {
                before_5_18,
                ..kernel()
            };
            let limit = Group::Sched.limit(&kernel);
            assert_eq!(limit.contains("best effort"), before_5_18, "{limit:?}");
            assert!(!Group::Nmi.limit(&kernel).contains("best effort"));
        }
    }

    #[test]
    fn an_older_kernel_is_named_in_a_sentence() {
        assert_eq!(older_kvm_exit(2), None);
        assert!(older_kvm_exit(3).unwrap().contains("before Linux 5.16"));
        // This kernel is newer, whether its KVM is a module or built in.
        let btf = KernelBtf::read().unwrap();
        assert_eq!(Group::KvmExit.misfit(&btf), None);
        assert!(matches!(btf.kvm_arguments("kvm_exit"), Some(2) | None));
    }

    #[test]
    fn interrupts_without_a_tracepoint_are_a_limit_where_kvm_may_post_them() {
        for posted_interrupts in [false, true] {
            let limit = Group::Irq.limit(&Kernel {
                posted_interrupts,
                ..kernel()
            });
            assert_eq!(
                limit.contains("PIN, NPI and PIW"),
                posted_interrupts,
                "{limit:?}"
            );
        }
    }

    #[test]
    fn vectors_that_no_program_hooks_are_named_and_hide_interrupts() {
        let tracefs = tempfile::tempdir().unwrap();
        let vectors = tracefs.path().join("events/irq_vectors");
        for event in [
            "local_timer_entry",
            "local_timer_exit",
            "perf_guest_pmi_entry",
            "enable",
        ] {
            fs::create_dir_all(vectors.join(event)).unwrap();
        }
        let hooked = HashSet::from(["local_timer_entry".to_owned()]);
        let kernel = Kernel {
            unhooked_vectors: unhooked_vectors(&hooked, &[tracefs.path()]),
            ..kernel()
        };
        let limit = Group::Irq.limit(&kernel);
        assert!(
            limit.contains("have no probe: perf_guest_pmi_entry;"),
            "{limit:?}"
        );
        let hides = |kernel: &Kernel| {
            let watched = Watched::new(&[Group::Irq], BTreeMap::new(), kernel);
            watched.witnesses().hides_vectors
        };
        assert!(hides(&kernel) && !hides(&self::kernel()));
        assert!(unhooked_vectors(&hooked, &[Path::new("/nowhere")]).is_empty());
    }
}
