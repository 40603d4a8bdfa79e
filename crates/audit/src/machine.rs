//! The machine to audit: its files, its CPUs and its VMs.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use vmnoise_events::Settings;
use vmnoise_host::{FileText, Host, MachineFiles, MatchedFile, VmPlaceholder};

use crate::cpus;
use crate::rule::CpuFormat;
use crate::tasks::{self, VmTasks};

/// A machine to audit, and which of its CPUs should be quiet.
#[derive(Debug, Clone)]
pub struct AuditMachine {
    files: MachineFiles,
    vms: OnceCell<Vec<VmTasks>>,
    /// Process of the only VM to check; `None` for all VMs.
    vm: Option<u32>,
    /// The CPUs that should be quiet, ascending.
    pub cpus: Vec<u32>,
    /// All other online CPUs, ascending.
    pub others: Vec<u32>,
}

/// File that lists the CPUs that a boot option isolates.
const ISOLATED: &str = "sys/devices/system/cpu/isolated";
/// Mount point of the control groups.
const CGROUPS: &str = "sys/fs/cgroup/";

impl AuditMachine {
    /// Returns the machine whose folders `proc` and `sys` are below `root`. `cpus` should be quiet.
    ///
    /// # Errors
    /// If the online CPUs cannot be read.
    pub fn under(root: impl AsRef<Path>, cpus: &[u32]) -> io::Result<AuditMachine> {
        AuditMachine::of(MachineFiles::of(Host::under(root)), cpus)
    }

    /// Returns the recorded machine, as it was at the time of the recording. `cpus` should be
    /// quiet.
    ///
    /// # Errors
    /// As for [`under`](Self::under).
    pub fn recorded(settings: Settings, cpus: &[u32]) -> io::Result<AuditMachine> {
        AuditMachine::of(MachineFiles::recorded(settings, None), cpus)
    }

    /// Returns the recorded machine, as [`recorded`](Self::recorded) does. Data that the recording
    /// lacks, such as threads, come from the folders `proc` and `sys` below `root`.
    ///
    /// # Errors
    /// As for [`under`](Self::under).
    pub fn recorded_under(
        root: impl AsRef<Path>,
        settings: Settings,
        cpus: &[u32],
    ) -> io::Result<AuditMachine> {
        let here = Host::under(root);
        AuditMachine::of(MachineFiles::recorded(settings, Some(here)), cpus)
    }

    fn of(files: MachineFiles, cpus: &[u32]) -> io::Result<AuditMachine> {
        let others = files.online_cpus()?;
        let machine = AuditMachine {
            files,
            vms: OnceCell::new(),
            vm: None,
            cpus: Vec::new(),
            others,
        };
        Ok(machine.about(cpus))
    }

    /// Returns the same machine, with these CPUs selected: they should be quiet.
    pub fn about(mut self, cpus: &[u32]) -> AuditMachine {
        self.others.append(&mut self.cpus);
        self.others.sort_unstable();
        self.others.dedup();
        self.others.retain(|cpu| !cpus.contains(cpu));
        self.cpus = cpus.to_vec();
        self.vms = OnceCell::new();
        self
    }

    /// Returns the same machine, with only the VM of this process.
    pub fn of_vm(mut self, pid: u32) -> AuditMachine {
        self.vm = Some(pid);
        self.vms = OnceCell::new();
        self
    }

    /// Returns the numbers of the kernel's version; empty if the version is unknown.
    pub(crate) fn kernel(&self) -> Vec<u32> {
        match self.read("proc/sys/kernel/osrelease") {
            FileText::Text(release) => numbers(&release),
            _ => Vec::new(),
        }
    }

    /// Reads a file. Adds the CPUs of isolated cpuset partitions to the list of isolated CPUs.
    pub(crate) fn read(&self, path: &str) -> FileText {
        match self.files.read(path) {
            FileText::Text(started) if path == ISOLATED => self.isolated(started),
            said => said,
        }
    }

    /// Adds the CPUs of isolated cpuset partitions to `started`. The kernel lists only the CPUs of
    /// the boot option there. Newer kernels list the other isolated CPUs at the root of the control
    /// groups. In older kernels, each group below the root has its own list.
    fn isolated(&self, started: String) -> FileText {
        let listed = self.listed(&started, CpuFormat::List);
        if !self.cpus.is_empty() && self.cpus.iter().all(|cpu| listed.contains(cpu)) {
            return FileText::Text(started);
        }
        let mut lists = vec![started];
        match self.files.read(&format!("{CGROUPS}cpuset.cpus.isolated")) {
            FileText::Text(text) => lists.push(text),
            FileText::Denied => return FileText::Denied,
            FileText::Absent => {
                let Some(folders) = self.folders(CGROUPS) else {
                    return FileText::Denied;
                };
                for folder in folders {
                    let file = |name| {
                        let path = format!("{CGROUPS}{folder}/cpuset.cpus.{name}");
                        self.files.read(&path)
                    };
                    match file("partition") {
                        FileText::Text(kind) if kind == "isolated" => match file("effective") {
                            FileText::Text(text) => lists.push(text),
                            FileText::Absent => {}
                            FileText::Denied => return FileText::Denied,
                        },
                        FileText::Denied => return FileText::Denied,
                        _ => {}
                    }
                }
            }
        }
        lists.retain(|it| !it.is_empty());
        FileText::Text(lists.join(","))
    }

    /// Returns the CPUs in the text of a list or a mask.
    pub(crate) fn listed(&self, text: &str, format: CpuFormat) -> Vec<u32> {
        let last = self.cpus.iter().chain(&self.others).max();
        cpus::listed(text, format, last.copied().unwrap_or(0))
    }

    /// Returns the online CPUs that are isolated.
    pub fn isolated_cpus(&self) -> Vec<u32> {
        let FileText::Text(text) = self.read(ISOLATED) else {
            return Vec::new();
        };
        let mut listed = self.listed(&text, CpuFormat::List);
        listed.retain(|cpu| self.cpus.contains(cpu) || self.others.contains(cpu));
        listed
    }

    /// Returns all existing files that match a pattern, sorted by number or name.
    pub(crate) fn matching(&self, pattern: &str) -> Vec<MatchedFile> {
        let of_vms = |placeholder| self.of_vms(placeholder);
        self.files.matching(pattern, &self.cpus, &of_vms)
    }

    fn of_vms(&self, placeholder: VmPlaceholder) -> Vec<String> {
        match placeholder {
            VmPlaceholder::Process => self.vms().iter().map(|vm| vm.pid.to_string()).collect(),
            VmPlaceholder::Cgroup => self.vm_cgroups(false).into_iter().collect(),
            VmPlaceholder::CpuCgroup => self.vm_cgroups(true).into_iter().collect(),
        }
    }

    /// Returns the control groups of all threads of the VMs, and all their parent groups.
    /// `is_first` selects the hierarchy of version 1 for CPUs.
    fn vm_cgroups(&self, is_first: bool) -> BTreeSet<String> {
        let of_vm = |vm: &VmTasks| {
            let pid = vm.pid;
            let files = vm
                .tids()
                .map(move |tid| format!("proc/{pid}/task/{tid}/cgroup"));
            files.collect::<Vec<_>>()
        };
        let files = self.vms().iter().flat_map(of_vm);
        files
            .flat_map(|file| self.files.cgroups_of(&file, is_first))
            .collect()
    }

    /// Returns the current machine, whose threads can be read. `None` for another machine, because
    /// recordings contain no threads.
    pub(crate) fn host(&self) -> Option<&Host> {
        self.files.here()
    }

    /// Returns the VMs whose vCPUs may run on the selected CPUs.
    pub(crate) fn vms(&self) -> &[VmTasks] {
        self.vms.get_or_init(|| {
            let host = self.host();
            let mut vms = host.map_or_else(Vec::new, |host| tasks::vms(host, &self.cpus));
            vms.retain(|vm| self.vm.is_none_or(|pid| vm.pid == pid));
            vms
        })
    }

    /// Returns a path of a process that may be a VM, and that vmnoise is not allowed to inspect.
    /// Returns the folder of all processes if the current machine is another one.
    pub(crate) fn hidden(&self) -> Option<String> {
        let Some(host) = self.host() else {
            return Some(tasks::ALL.into());
        };
        let hidden = host.process_with_hidden_files();
        hidden.map(|pid| format!("proc/{pid}/fd"))
    }

    /// Returns the names of the folders in `folder`, whose path must end with `/`. `None` if they
    /// could not be read.
    pub(crate) fn folders(&self, folder: &str) -> Option<Vec<String>> {
        self.files.folders(folder)
    }
}

/// Returns the numbers in a version: 6, 12 and 9 for `6.12.9-rt`.
pub(crate) fn numbers(version: &str) -> Vec<u32> {
    let plain = version
        .split(|it: char| !it.is_ascii_digit() && it != '.')
        .next();
    let parts = plain.unwrap_or_default().split('.');
    parts.map_while(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::finding::Audit;
    use crate::rule::FileTree;
    use crate::rules::all;
    use crate::tree::grown;

    /// A recorded machine gives the same findings as the machine itself, for any selection of CPUs.
    #[test]
    fn a_machine_is_judged_as_it_was_recorded() {
        for rule in all().unwrap() {
            // Threads are read from the current machine, not from a recording.
            let is_of_threads = |tree: &FileTree| {
                tree.keys()
                    .any(|path| path.starts_with("task/") || path.starts_with("vm/"))
            };
            if is_of_threads(&rule.trees.good) || is_of_threads(&rule.trees.bad) {
                continue;
            }
            for tree in [&rule.trees.good, &rule.trees.bad] {
                let root = grown(tree);
                // A busy machine may delay this test longer than a run would wait.
                let patience = Duration::from_secs(600);
                let recorded = Host::under(root.path()).settings_within(patience).unwrap();
                for cpus in [&[2, 3][..], &[0], &[0, 1, 2, 3]] {
                    let here = AuditMachine::under(root.path(), cpus).unwrap();
                    let there = AuditMachine::recorded(recorded.clone(), cpus).unwrap();
                    let audit = |machine| {
                        let audit = Audit::new(vec![rule.clone()], machine, None);
                        format!("{audit:?}")
                    };
                    assert_eq!(
                        audit(&there),
                        audit(&here),
                        "{}: does `Host::settings` keep all its files?",
                        rule.id
                    );
                }
            }
        }
    }

    #[test]
    fn what_is_not_in_the_recording_cannot_be_read() {
        let mut recorded = Settings::default();
        let online = ("sys/devices/system/cpu/online", "0-3");
        recorded.insert(online.0, Some(online.1)).unwrap();
        let machine = AuditMachine::recorded(recorded, &[2]).unwrap();
        let rules: Vec<_> = all().unwrap();
        let of_all_kernels = rules.into_iter().filter(|it| it.is_of_kernel(&[]));
        let of_all_kernels: Vec<_> = of_all_kernels.collect();
        let count = of_all_kernels.len();
        let audit = Audit::new(of_all_kernels, &machine, None);
        assert_eq!(
            (audit.findings.len(), audit.good.len(), audit.absent.len()),
            (count, 0, 0),
            "{:?}",
            audit.absent
        );
        assert!(AuditMachine::recorded(Settings::default(), &[2]).is_err());
    }
}
