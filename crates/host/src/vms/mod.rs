//! Virtual machines of this host. The functions find the processes that own a VM of KVM, the names
//! of these VMs, and the threads of their vCPUs.

mod command;
mod identity;
#[cfg(test)]
mod products;

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use vmnoise_events::{Name, VmIdentity};

use super::cgroups::{self, Runtimes};
use super::scheduling::Scheduling;
use super::threads::name_in;
use super::{Host, cpu_list};

/// A process that owns one or more VMs of KVM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmProcess {
    /// Process id of the VMM.
    pub pid: u32,
    /// Name of the VM for people; `comm:pid` if the VM has no name.
    pub name: Name,
    /// Other facts that identify the VM.
    pub identity: VmIdentity,
    /// vCPUs of the VM, ordered by their numbers.
    pub vcpus: Vec<VcpuThread>,
}

/// Thread of a vCPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VcpuThread {
    /// Number of the vCPU in its VM.
    pub id: u32,
    /// The kernel's thread id.
    pub tid: u32,
    /// CPUs that the thread may use, in the kernel's list format; empty if /proc does not report
    /// them.
    pub cpus: String,
    /// Policy and priority of the thread, in the format of chrt(1), for instance `SCHED_FIFO 50`.
    pub policy: String,
}

impl Host {
    /// Returns every process that owns a VM, ascending by process id. If this process may not read
    /// the files of other users' processes, the VMs of these processes are missing. The function
    /// reads the target of every open file of every process. So the tracer's `VmSearch` uses it
    /// only if BPF cannot find VMs.
    pub fn vms(&self) -> Vec<VmProcess> {
        if !self.numbers_are_the_kernels() {
            return Vec::new();
        }
        let mut vms: Vec<VmProcess> = numbered(&self.root.join("proc"))
            .filter(|(_, process)| file_of_vm(process).is_some())
            .filter_map(|(pid, _)| self.vm(pid))
            .collect();
        vms.sort_by_key(|vm| vm.pid);
        vms
    }

    /// Returns the name of this process's VM (see [`VmProcess::name`]), and other facts about the
    /// VM. `pid` is the kernel's process id. Returns `None` if the process has ended.
    pub fn who_is_vm(&self, pid: u32) -> Option<(Name, VmIdentity)> {
        if !self.numbers_are_the_kernels() {
            return None;
        }
        self.who_is(pid, &self.process(pid))
    }

    /// Returns the VM of this process; `None` if the process has ended. The vCPUs come from
    /// debugfs, or from the names of the process's threads.
    pub fn vm(&self, pid: u32) -> Option<VmProcess> {
        if !self.numbers_are_the_kernels() {
            return None;
        }
        let vcpus = self.vcpus_by_debugfs(pid).into_iter();
        self.vm_of(pid, pid, vcpus.map(|(id, tid)| (id, tid, tid)).collect())
    }

    /// Returns the VM of a process; `None` if the process has ended. `pid` is the kernel's process
    /// id, and `pid_here` is the id in this host's /proc. Each element of `vcpus` has the number of
    /// a vCPU, and the id of its thread in the kernel and in /proc. If `vcpus` is empty, the vCPUs
    /// are found by the names of threads.
    pub fn vm_of(
        &self,
        pid: u32,
        pid_here: u32,
        mut vcpus: Vec<(u32, u32, u32)>,
    ) -> Option<VmProcess> {
        let process = self.process(pid_here);
        let (name, identity) = self.who_is(pid, &process)?;
        if vcpus.is_empty() && pid == pid_here {
            let named = vcpus_by_thread_name(&process).into_iter();
            vcpus = named.map(|(id, tid)| (id, tid, tid)).collect();
        }
        vcpus.sort_unstable();
        vcpus.dedup();
        let threads = vcpus.into_iter();
        Some(VmProcess {
            pid,
            name,
            identity,
            vcpus: threads
                .map(|(id, tid, tid_here)| VcpuThread {
                    tid,
                    ..thread(&process, id, tid_here)
                })
                .collect(),
        })
    }

    /// Returns the path in /proc of the first open file of this process that is a VM; `None` if
    /// there is no such file.
    pub fn file_of_vm(&self, pid: u32) -> Option<PathBuf> {
        file_of_vm(&self.process(pid))
    }

    /// Returns a process whose open files this process may not inspect, so that it may be a VM.
    /// `None` if there is no such process.
    pub fn process_with_hidden_files(&self) -> Option<u32> {
        let mut pids = self.processes().into_iter();
        pids.find(|pid| hides_files(&self.process(*pid).join("fd")))
    }

    /// Returns the path in /proc of the file descriptor `fd` of a process.
    pub fn file_of(&self, pid_here: u32, fd: u32) -> PathBuf {
        self.process(pid_here).join("fd").join(fd.to_string())
    }

    fn process(&self, pid: u32) -> PathBuf {
        self.root.join("proc").join(pid.to_string())
    }

    fn who_is(&self, pid: u32, process: &Path) -> Option<(Name, VmIdentity)> {
        let comm = fs::read_to_string(process.join("comm")).ok()?;
        // The command line is empty if the process was killed and has freed its memory (proc(5)),
        // but has not yet closed its files. Such a process has lost its name, and is no longer a
        // VMM.
        let cmdline = fs::read(process.join("cmdline")).ok()?;
        if cmdline.is_empty() {
            return None;
        }
        let cgroup = fs::read_to_string(process.join("cgroup")).unwrap_or_default();
        let occupant = cgroups::path_of(&cgroup).map(cgroups::occupant_of);
        let occupant = occupant.unwrap_or_default();
        let told = command::told(&cmdline);
        let container = identity::container(&told, &occupant);
        let labels = container.and_then(|id| Runtimes::under(&self.root).labels(id));
        let (name, identity) = identity::of(&told, &occupant, labels.as_ref());
        let name = name.unwrap_or_else(|| format!("{}:{pid}", name_in(&comm)));
        Some((name.into(), identity))
    }

    /// Returns the number and the thread id of each vCPU, as KVM lists them in debugfs.
    fn vcpus_by_debugfs(&self, pid: u32) -> Vec<(u32, u32)> {
        let threads: Vec<u32> = numbered(&self.process(pid).join("task"))
            .map(|(tid, _)| tid)
            .collect();
        let vcpus = self.vcpu_folders(|vm| {
            let maker = vm.split('-').next().and_then(|tid| tid.parse().ok());
            maker.is_some_and(|tid: u32| tid == pid || threads.contains(&tid))
        });
        let vcpus = vcpus.into_iter();
        vcpus.map(|vcpu| (vcpu.number, vcpu.tid)).collect()
    }
}

/// Returns whether this process may not read a folder of open files, or the targets of its links.
fn hides_files(folder: &Path) -> bool {
    let is_denied = |error: io::Error| error.kind() == ErrorKind::PermissionDenied;
    match fs::read_dir(folder) {
        Err(error) => is_denied(error),
        Ok(mut files) => {
            let file = files.next().and_then(Result::ok);
            file.is_some_and(|file| fs::read_link(file.path()).is_err_and(is_denied))
        }
    }
}

/// Returns the path in /proc of the first open file of a process that is a VM.
fn file_of_vm(process: &Path) -> Option<PathBuf> {
    let mut files = children(&process.join("fd")).map(|(_, file)| file);
    files.find(|file| leads_to_vm(file))
}

/// Returns whether this open file of a process is a VM. virt/kvm/kvm_main.c gives such files the
/// name `kvm-vm`.
pub fn leads_to_vm(file: &Path) -> bool {
    fs::read_link(file).is_ok_and(|target| target == Path::new("anon_inode:kvm-vm"))
}

/// Returns the number and the thread id of each vCPU. VMMs give names with numbers to these
/// threads.
fn vcpus_by_thread_name(process: &Path) -> Vec<(u32, u32)> {
    numbered(&process.join("task"))
        .filter_map(|(tid, task)| {
            let comm = fs::read_to_string(task.join("comm")).ok()?;
            Some((command::vcpu_of_thread(name_in(&comm))?, tid))
        })
        .collect()
}

fn thread(process: &Path, id: u32, tid: u32) -> VcpuThread {
    let task = process.join("task").join(tid.to_string());
    let status = fs::read_to_string(task.join("status")).unwrap_or_default();
    let cpus = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .map(str::trim);
    VcpuThread {
        id,
        tid,
        // The kernel's text is used only if it is a list of CPUs.
        cpus: cpus
            .filter(|list| cpu_list::parse(list).is_ok())
            .unwrap_or_default()
            .to_owned(),
        policy: fs::read_to_string(task.join("stat"))
            .ok()
            .and_then(|stat| Scheduling::of(&stat))
            .map_or_else(String::new, |told| told.to_string()),
    }
}

pub(super) fn children(folder: &Path) -> impl Iterator<Item = (String, PathBuf)> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
}

fn numbered(folder: &Path) -> impl Iterator<Item = (u32, PathBuf)> + use<> {
    children(folder).filter_map(|(name, path)| Some((name.parse().ok()?, path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::machine_with_vm;

    #[test]
    fn a_vm_is_found_under_its_name_with_its_vcpus() {
        for debugfs in [true, false] {
            let (_root, host) = machine_with_vm(debugfs);
            let vms = host.vms();
            assert_eq!(vms.len(), 1);
            assert_eq!((vms[0].pid, vms[0].name.as_str()), (71, "web"));
            let vcpus: Vec<_> = vms[0]
                .vcpus
                .iter()
                .map(|vcpu| (vcpu.id, vcpu.tid, vcpu.cpus.as_str()))
                .collect();
            assert_eq!(vcpus, [(0, 80, "2"), (1, 81, "3")]);
        }
    }

    #[test]
    fn a_process_that_is_dying_is_no_vmm() {
        let (root, host) = machine_with_vm(false);
        fs::write(root.path().join("proc/71/cmdline"), "").unwrap();
        assert_eq!(host.vms(), []);
    }

    #[test]
    fn a_machine_without_proc_has_no_vms() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Host::under(root.path()).vms(), []);
    }
}
