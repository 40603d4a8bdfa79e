//! List of the VMs of a host that is kept up to date without reading every file of every process.
//! The kernel reports which processes run vCPUs. One link in /proc shows whether a process still
//! holds its VM.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::VmSearch;
use vmnoise_host::{VmProcess, leads_to_vm};

/// Processes that are known to hold VMs.
#[derive(Debug)]
pub struct KnownVms {
    search: VmSearch,
    /// VM of each process, and the link in /proc by which the VM was found.
    held: BTreeMap<u32, (VmProcess, PathBuf)>,
}

impl KnownVms {
    /// Creates the list without any VM.
    pub fn new(search: VmSearch) -> KnownVms {
        KnownVms {
            search,
            held: BTreeMap::new(),
        }
    }

    /// Looks up the VMs of the given processes, which run vCPUs. Returns the VMs and vCPUs of the
    /// processes that still live, and adds them to this list.
    pub fn look_at(&mut self, processes: &[u32]) -> Vec<VmProcess> {
        let files = self.search.files_of(processes);
        let look = |&pid: &u32| {
            let before = self.held.remove(&pid).map(|(_, file)| file);
            let vm = self.search.vm(&files, pid)?;
            let file = before.filter(|file| leads_to_vm(file));
            if let Some(file) = file.or_else(|| self.search.file(&files, pid)) {
                self.held.insert(pid, (vm.clone(), file));
            }
            Some(vm)
        };
        processes.iter().filter_map(look).collect()
    }

    /// Removes processes that no longer hold a VM. If the known link is gone or unreadable,
    /// searches all open files of the process, because the process may hold another VM.
    pub fn forget_gone(&mut self) {
        let search = &self.search;
        self.held.retain(|pid, (_, file)| {
            if leads_to_vm(file) {
                return true;
            }
            let other = search.file(&search.files_of(&[*pid]), *pid);
            let holds_another = other.is_some();
            *file = other.unwrap_or_default();
            holds_another
        });
    }

    /// Returns all known VMs, ordered by process.
    pub fn vms(&self) -> Vec<VmProcess> {
        self.held.values().map(|(vm, _)| vm.clone()).collect()
    }

    /// Returns the process ids of the processes that hold the known VMs.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.held.keys().copied().collect()
    }

    /// Returns the search by which the VMs were found.
    pub(crate) fn search(&self) -> &VmSearch {
        &self.search
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use vmnoise_host::fixtures::machine_with_vm as host;

    fn pids(known: &KnownVms) -> Vec<u32> {
        known.vms().iter().map(|vm| vm.pid).collect()
    }

    #[test]
    fn a_vm_is_known_from_its_first_vcpu_to_its_last_file() {
        let (root, host) = host(true);
        let mut known = KnownVms::new(VmSearch::by_files(host.clone()));
        assert_eq!(known.vms(), []);
        // Process 69 is not a VMM, process 70 has ended, and process 71 holds a VM.
        let named = known.look_at(&[69, 70, 71]);
        assert_eq!(named.last(), host.vms().last());
        assert_eq!(known.vms(), host.vms());
        known.forget_gone();
        assert_eq!(pids(&known), [71]);

        let file = |number: u32| root.path().join(format!("proc/71/fd/{number}"));
        // The process closes the VM's file, and opens another VM.
        symlink("anon_inode:kvm-vm", file(12)).unwrap();
        fs::remove_file(file(9)).unwrap();
        known.forget_gone();
        assert_eq!(pids(&known), [71]);
        // The number of the closed file is used by a file that is not a VM.
        fs::remove_file(file(12)).unwrap();
        symlink("/dev/null", file(12)).unwrap();
        known.forget_gone();
        assert_eq!(pids(&known), Vec::<u32>::new());
    }

    #[test]
    fn a_process_of_the_same_id_is_looked_at_anew() {
        let (root, host) = host(false);
        let mut known = KnownVms::new(VmSearch::by_files(host));
        known.look_at(&[71]);
        let cmdline = root.path().join("proc/71/cmdline");
        fs::write(&cmdline, "qemu-system-x86_64\0-name\0guest=mail\0").unwrap();
        known.look_at(&[71]);
        assert_eq!(known.vms()[0].name, "mail");
        // A process that is ending has an empty command line.
        fs::write(&cmdline, "").unwrap();
        assert_eq!(known.look_at(&[71]), []);
        assert_eq!(known.vms(), []);
    }
}
