//! VMs of this machine, and their threads.

use vmnoise_host::{Host, Scheduling, Thread};

/// Folder of all processes.
pub(crate) const ALL: &str = "proc/";

/// A VM with all threads of its VMM.
#[derive(Debug, Clone)]
pub(crate) struct VmTasks {
    /// Id of the VMM's process.
    pub(crate) pid: u32,
    /// Name of the VM for readers.
    pub(crate) name: String,
    /// All threads of the VMM's process.
    pub(crate) tasks: Vec<Task>,
}

/// A thread, and how it is scheduled.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    /// Name and id of the thread, and the CPUs on which it may run.
    pub(crate) thread: Thread,
    /// Scheduling policy and priority of the thread.
    pub(crate) scheduling: Scheduling,
    /// Whether the thread is a vCPU.
    pub(crate) is_vcpu: bool,
}

/// Returns the VMs whose vCPUs may run on the selected CPUs.
pub(crate) fn vms(host: &Host, cpus: &[u32]) -> Vec<VmTasks> {
    let vms = host.vms().into_iter().map(|vm| VmTasks {
        pid: vm.pid,
        name: vm.name.to_string(),
        tasks: tasks(host, vm.pid)
            .map(|task| Task {
                is_vcpu: vm.vcpus.iter().any(|vcpu| vcpu.tid == task.thread.tid),
                ..task
            })
            .collect(),
    });
    vms.filter(|vm| vm.vcpus().any(|it| it.may_run_on(cpus)))
        .collect()
}

/// Returns the threads of a process.
pub(crate) fn tasks(host: &Host, pid: u32) -> impl Iterator<Item = Task> {
    let threads = host.threads_of(pid).into_iter();
    threads.filter_map(move |thread| {
        Some(Task {
            scheduling: host.scheduling(pid, thread.tid).ok()?,
            thread,
            is_vcpu: false,
        })
    })
}

impl VmTasks {
    /// Returns the vCPUs of the VM.
    pub(crate) fn vcpus(&self) -> impl Iterator<Item = &Task> {
        self.tasks.iter().filter(|task| task.is_vcpu)
    }

    /// Returns the ids of all threads of the VM.
    pub(crate) fn tids(&self) -> impl Iterator<Item = u32> {
        self.tasks.iter().map(|task| task.thread.tid)
    }
}

impl Task {
    /// Returns whether the thread may use one of these CPUs.
    pub(crate) fn may_run_on(&self, cpus: &[u32]) -> bool {
        self.thread.allowed_cpus.iter().any(|it| cpus.contains(it))
    }
}
