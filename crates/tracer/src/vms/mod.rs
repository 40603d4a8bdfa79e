//! Finds the VMs of this host, with their vCPUs and the clocks of their guests. The preferred
//! source is a BPF program that scans open files in the kernel. It needs no debugfs, and no right
//! to look into other users' processes. If the program is not available, links in /proc and KVM's
//! debugfs are used.

mod found;
mod known;
mod walk;
mod wire;

use std::path::PathBuf;

use vmnoise_events::ProbeStatus;

use crate::error::LoadError;
use found::VmFiles;
pub use known::KnownVms;
use vmnoise_host::{GuestTsc, Host, KvmDebugfs, VmProcess};
use walk::Walk;

/// A search for VMs.
#[derive(Debug)]
pub struct VmSearch {
    host: Host,
    walk: Result<Walk, LoadError>,
}

impl VmSearch {
    /// Creates a search, and loads the BPF program that scans open files. Without the right to load
    /// it, the search uses /proc and debugfs.
    pub fn here() -> VmSearch {
        VmSearch {
            host: Host::here(),
            walk: Walk::load(),
        }
    }

    /// Returns a search that uses only /proc and debugfs of `host`. Tests pass a fixture.
    pub fn by_files(host: Host) -> VmSearch {
        let refused = LoadError::Refused {
            why: "it was not asked for".to_owned(),
            remedy: String::new(),
        };
        VmSearch {
            host,
            walk: Err(refused),
        }
    }

    /// Returns every process that holds a VM, ordered by the kernel's process id.
    pub fn vms(&self) -> Vec<VmProcess> {
        match self.files(None) {
            None => self.host.vms(),
            files => {
                let processes = files.iter().flat_map(VmFiles::processes);
                processes.filter_map(|pid| self.vm(&files, pid)).collect()
            }
        }
    }

    /// Returns the clocks of the guests of these processes. Each has the thread id and the number
    /// of its vCPU. If debugfs is used, returns the clocks of all guests. It leaves out a vCPU that
    /// runs a nested guest at this moment, because debugfs then has the clock of the nested guest.
    pub(crate) fn guest_tscs(&self, processes: &[u32]) -> Vec<(u32, u32, GuestTsc)> {
        match self.files(Some(processes)) {
            Some(files) => files.guest_tscs(self.host.kvm_module().as_deref()),
            None => self.host.guest_tscs(),
        }
    }

    /// Returns the status of the search: the source that it uses, and what is missing.
    pub fn probe_status(&self) -> ProbeStatus {
        const PROBE: &str = "VMs and their vCPUs";
        let error = match &self.walk {
            Ok(_) if !self.host.numbers_are_ours() => {
                return ProbeStatus::limited(
                    PROBE,
                    "BPF iterator over files",
                    "/proc belongs to another pid namespace, so VMs have no names",
                    "mount /proc in the pid namespace in which vmnoise runs, or run it in the machine's own (hostPID)",
                );
            }
            Ok(_) if !self.host.numbers_are_the_kernels() => {
                return ProbeStatus::limited(
                    PROBE,
                    "BPF iterator over files",
                    "only VMs of this pid namespace are found and named",
                    "run vmnoise in the machine's own pid namespace (hostPID)",
                );
            }
            Ok(_) => return ProbeStatus::best(PROBE, "BPF iterator over files"),
            Err(error) => error,
        };
        let (why, remedy) = match error {
            LoadError::Refused { why, remedy } => (why.as_str(), remedy.as_str()),
            LoadError::Broken(why) => (why.as_str(), "report this line with the kernel version"),
        };
        let (in_use, limit) = match (self.host.numbers_are_the_kernels(), self.host.kvm_debugfs()) {
            (false, _) => ("none", "VMs have no names, and their vCPUs no numbers"),
            (true, KvmDebugfs::Readable) => (
                "links in /proc, KVM's debugfs",
                "VMs of other users are found only with CAP_SYS_PTRACE",
            ),
            (true, KvmDebugfs::Missing | KvmDebugfs::Forbidden) => (
                "links in /proc, names of threads",
                "VMs of other users are found only with CAP_SYS_PTRACE, and vCPUs of a VMM that names \
                 no threads have no numbers",
            ),
        };
        ProbeStatus::limited(PROBE, in_use, &format!("{why}: {limit}"), remedy)
    }

    /// Returns whether BPF reads the clocks of guests. If not, debugfs is used.
    pub fn walks(&self) -> bool {
        self.walk.is_ok()
    }

    /// Returns the files that the scan finds of `processes`, or of all processes if it is `None`.
    /// Returns `None` if the program is not loaded or fails, for instance for lack of memory. The
    /// caller then uses /proc and debugfs.
    fn files(&self, processes: Option<&[u32]>) -> Option<VmFiles> {
        let walk = self.walk.as_ref().ok()?;
        let files = match processes {
            // The iterator takes process ids of this pid namespace.
            Some(processes) if self.host.numbers_are_the_kernels() => {
                let files = processes.iter().map(|&process| walk.over(Some(process)));
                files.collect::<Result<Vec<_>, _>>().ok()?.concat()
            }
            _ => walk.over(None).ok()?,
        };
        Some(VmFiles::new(&files))
    }

    /// Returns the files that the scan finds of the given processes; `None` if `processes` is
    /// empty.
    fn files_of(&self, processes: &[u32]) -> Option<VmFiles> {
        match processes {
            [] => None,
            _ => self.files(Some(processes)),
        }
    }

    /// Returns the VM of a process, from the files that the scan found. If they have no VM of this
    /// process, looks in /proc. A process may have closed the file of its VM, and still run vCPUs.
    fn vm(&self, files: &Option<VmFiles>, pid: u32) -> Option<VmProcess> {
        let Some(process) = files.as_ref().and_then(|files| files.of(pid)) else {
            return self.host.vm(pid);
        };
        if process.pid_here == 0 || !self.host.numbers_are_ours() {
            return None;
        }
        let vcpus = process.vcpus.iter().copied().collect();
        self.host.vm_of(pid, process.pid_here, vcpus)
    }

    /// Returns the link in /proc of the VM file that a process holds.
    fn file(&self, files: &Option<VmFiles>, pid: u32) -> Option<PathBuf> {
        match files {
            Some(files) => {
                let process = files.of(pid)?;
                Some(self.host.file_of(process.pid_here, process.fd?))
            }
            None => self.host.file_of_vm(pid),
        }
    }
}
