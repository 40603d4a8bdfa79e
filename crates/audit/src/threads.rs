//! Checks the CPUs and the scheduling of threads: of VMs, of the kernel, and of others. Threads are
//! read from the current machine, because recordings contain none.

use std::collections::BTreeSet;

use vmnoise_host::{FileText, Scheduling, Thread, cpu_list};
use wildmatch::WildMatch;

use crate::machine::AuditMachine;
use crate::rule::{ThreadFault, Whose};
use crate::seen::{Bad, Seen};
use crate::tasks::{ALL, Task, VmTasks, tasks};

/// Current state of a thread, as words for remedies.
pub(crate) struct AsItIs {
    /// Id of the thread, and its start time in clock ticks since boot.
    pub(crate) thread: (u32, u64),
    /// Each placeholder, and the word that replaces it.
    pub(crate) words: Vec<(&'static str, String)>,
}

/// Checks threads of this kind for a fault.
pub(crate) fn look_at(
    machine: &AuditMachine,
    whose: Whose,
    names: &[String],
    but: &[String],
    fault: ThreadFault,
) -> Seen {
    let (Some(host), vms) = (machine.host(), machine.vms()) else {
        return Seen::Denied(ALL.into());
    };
    let is_meant = |task: &Task| {
        let is = |name: &String| WildMatch::new(name).matches(&task.thread.comm);
        (names.is_empty() || names.iter().any(is)) && !but.iter().any(is)
    };
    let mut is_there = false;
    let mut bad = Vec::new();
    let mut judge = |vm: Option<&VmTasks>, task: &Task| {
        if is_meant(task) {
            is_there = true;
            bad.extend(is_bad(machine, vms, vm, task, fault).then(|| self::bad(task, vm)));
        }
    };
    match whose {
        Whose::Vcpus | Whose::Vmm | Whose::Vm => {
            for vm in vms {
                let asked = vm.tasks.iter().filter(|it| match whose {
                    Whose::Vcpus => it.is_vcpu,
                    Whose::Vmm => !it.is_vcpu,
                    _ => true,
                });
                asked.for_each(|task| judge(Some(vm), task));
            }
        }
        Whose::Kernel | Whose::Users => {
            let is_own = |pid: &u32| *pid == std::process::id();
            let is_vmm = |pid: &u32| vms.iter().any(|vm| vm.pid == *pid);
            let all = host.processes().into_iter();
            for pid in all.filter(|pid| !is_own(pid) && !is_vmm(pid)) {
                let asked = tasks(host, pid).filter(|it| {
                    it.scheduling.is_kernels() == (whose == Whose::Kernel)
                        && it.may_run_on(&machine.cpus)
                });
                asked.for_each(|task| judge(None, &task));
            }
        }
    }
    match (bad.is_empty(), is_there) {
        (false, _) => Seen::Bad(bad),
        (true, true) => Seen::Good,
        // A process with unreadable files may be a VM.
        (true, false) if matches!(whose, Whose::Kernel | Whose::Users) || !vms.is_empty() => {
            Seen::Absent
        }
        (true, false) => machine.hidden().map_or(Seen::Absent, Seen::Denied),
    }
}

/// Checks that no process has this name.
pub(crate) fn no_process(machine: &AuditMachine, name: &str) -> Seen {
    let Some(host) = machine.host() else {
        return Seen::Denied(ALL.into());
    };
    let pids = host.processes();
    if pids.is_empty() {
        return Seen::Absent;
    }
    let files = pids
        .into_iter()
        .map(|pid| (pid, format!("proc/{pid}/comm")));
    let named = files.filter(|(_, file)| machine.read(file) == FileText::Text(name.to_owned()));
    let bad: Vec<Bad> = named
        .map(|(pid, path)| Bad {
            path,
            instance: pid.to_string(),
            name: String::new(),
            found: name.to_owned(),
        })
        .collect();
    match bad.is_empty() {
        true => Seen::Good,
        false => Seen::Bad(bad),
    }
}

/// Returns the current state of the thread with the bad setting. `None` if the bad setting belongs
/// to no thread, or if the thread has ended.
pub(crate) fn as_it_is(machine: &AuditMachine, bad: &Bad) -> Option<AsItIs> {
    let (pid, tid) = bad.path.strip_prefix("proc/")?.split_once("/task/")?;
    let (pid, tid) = (pid.parse().ok()?, tid.split('/').next()?.parse().ok()?);
    let host = machine.host()?;
    let thread = host.threads_of(pid).into_iter().find(|it| it.tid == tid)?;
    let scheduling = host.scheduling(pid, tid).ok()?;
    let vm = machine.vms().iter().find(|vm| vm.pid == pid);
    let best = vm.and_then(|vm| vm.vcpus().max_by_key(|it| it.scheduling.rank()));
    let chrt = |of: Scheduling| of.chrt();
    let words = [
        ("{was_cpus}", Some(cpu_list::format(&thread.allowed_cpus))),
        ("{was_chrt}", chrt(scheduling)),
        ("{was_nice}", Some(scheduling.nice.to_string())),
        ("{vcpu_chrt}", best.and_then(|it| chrt(it.scheduling))),
    ];
    Some(AsItIs {
        thread: (tid, thread.started_ticks),
        words: words
            .into_iter()
            .filter_map(|(word, is)| Some((word, is?)))
            .collect(),
    })
}

fn is_bad(
    machine: &AuditMachine,
    vms: &[VmTasks],
    vm: Option<&VmTasks>,
    task: &Task,
    fault: ThreadFault,
) -> bool {
    let scheduling = &task.scheduling;
    match fault {
        ThreadFault::OnCpus => !scheduling.is_bound() && task.may_run_on(&machine.cpus),
        ThreadFault::Unpinned => task.thread.allowed_cpus.len() > 1,
        ThreadFault::Crowded => {
            let room: BTreeSet<_> = task.thread.allowed_cpus.iter().collect();
            let vcpus = vms.iter().flat_map(VmTasks::vcpus);
            let only_here =
                vcpus.filter(|it| it.thread.allowed_cpus.iter().all(|cpu| room.contains(cpu)));
            only_here.count() > room.len()
        }
        ThreadFault::BelowVcpus => {
            let vcpus = vm.into_iter().flat_map(VmTasks::vcpus);
            let best = vcpus.max_by_key(|it| it.scheduling.rank());
            best.is_some_and(|best| {
                best.scheduling.is_real_time() && scheduling.rank() < best.scheduling.rank()
            })
        }
        ThreadFault::Weak => {
            !scheduling.is_idle() && scheduling.rank() < Scheduling::ORDINARY.rank()
        }
        ThreadFault::Idle => scheduling.is_idle(),
        ThreadFault::Strong => {
            !scheduling.is_real_time() && scheduling.rank() > Scheduling::ORDINARY.rank()
        }
        ThreadFault::Ordinary => !scheduling.is_real_time(),
    }
}

fn bad(task: &Task, vm: Option<&VmTasks>) -> Bad {
    let Thread { pid, tid, comm, .. } = &task.thread;
    let whose = vm.map_or_else(String::new, |vm| format!(", of {}", vm.name));
    Bad {
        path: format!("proc/{pid}/task/{tid}/status"),
        instance: tid.to_string(),
        name: comm.to_string(),
        found: format!(
            "{}, CPU {}{whose}",
            task.scheduling,
            cpu_list::format(&task.thread.allowed_cpus)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::FileTree;
    use crate::tree::grown;

    /// Checks threads on a machine with four CPUs. CPUs 2 and 3 are selected.
    fn seen(files: &[(&str, &str)], whose: Whose, fault: ThreadFault) -> Seen {
        let files = files
            .iter()
            .map(|(path, text)| ((*path).into(), (*text).into()));
        let root = grown(&files.collect::<FileTree>());
        let machine = AuditMachine::under(root.path(), &[2, 3]).unwrap();
        look_at(&machine, whose, &[], &[], fault)
    }

    #[test]
    fn a_vm_that_is_elsewhere_is_nobodys_trouble() {
        let vm = |cpus: &str| {
            let vcpu = format!("CPU 0/KVM; {cpus}; 0; 0; 5; 0");
            let files = [("vm/71", "web"), ("task/71/80", &*vcpu)];
            seen(&files, Whose::Vm, ThreadFault::Weak)
        };
        assert_eq!(vm("0-1"), Seen::Absent);
        let Seen::Bad(bad) = vm("1-2") else {
            panic!("a vCPU of it may run on CPU 2");
        };
        assert_eq!((&*bad[0].instance, &*bad[0].name), ("80", "CPU 0/KVM"));
        assert_eq!(bad[0].found, "SCHED_OTHER nice 5, CPU 1-2, of web");
    }

    #[test]
    fn as_many_vcpus_as_cpus_are_no_crowd() {
        let vcpus = |third: &str| {
            let files = [
                ("vm/71", "web"),
                ("task/71/80", "CPU 0/KVM; 2-3; 0; 0; 0; 0"),
                ("task/71/81", "CPU 1/KVM; 2-3; 0; 0; 0; 0"),
                ("task/71/82", third),
            ];
            seen(&files, Whose::Vcpus, ThreadFault::Crowded)
        };
        assert_eq!(vcpus("CPU 2/KVM; 1; 0; 0; 0; 0"), Seen::Good);
        assert_eq!(vcpus("worker; 3; 0; 0; 0; 0"), Seen::Good);
        let Seen::Bad(bad) = vcpus("CPU 2/KVM; 3; 0; 0; 0; 0") else {
            panic!("three on two");
        };
        // Three vCPUs share CPUs 2 and 3, so the check reports the first two. Only the third vCPU
        // is confined to CPU 3, so the check does not report it.
        assert_eq!(bad.len(), 2);
    }

    #[test]
    fn the_kernels_threads_and_those_of_users_are_told_apart() {
        let files = [
            ("task/2/2", "kthreadd; 0-3; 0; 0; -5; 2097152"),
            ("task/90/90", "backup; 0-3; 0; 0; -5; 0"),
        ];
        for (whose, tid) in [(Whose::Kernel, "2"), (Whose::Users, "90")] {
            let Seen::Bad(bad) = seen(&files, whose, ThreadFault::Strong) else {
                panic!("{whose:?}");
            };
            let tids: Vec<_> = bad.iter().map(|it| &*it.instance).collect();
            assert_eq!(tids, [tid]);
        }
    }
}
