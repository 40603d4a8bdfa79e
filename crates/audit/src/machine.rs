//! Reads the files of a machine: the current machine, an invented tree of files, or a recorded
//! machine.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use vmnoise_events::Settings;
use vmnoise_host::{Host, cpu_list};

use crate::cpus;
use crate::rule::CpuFormat;
use crate::tasks::{self, VmTasks};

/// A machine to audit, and which of its CPUs should be quiet.
#[derive(Debug, Clone)]
pub struct AuditMachine {
    source: Source,
    vms: OnceCell<Vec<VmTasks>>,
    /// Process of the only VM to check; `None` for all VMs.
    vm: Option<u32>,
    /// The CPUs that should be quiet, ascending.
    pub cpus: Vec<u32>,
    /// All other online CPUs, ascending.
    pub others: Vec<u32>,
}

/// Source of the machine's files.
#[derive(Debug, Clone)]
enum Source {
    /// Files below this folder.
    Tree(PathBuf, Host),
    /// Files below this folder. Every file that is read is kept for a recording.
    Heard(PathBuf, RefCell<Heard>),
    /// Files of a recording. If the recording is from the current machine, missing files are read
    /// below this folder.
    Recorded(Arc<Settings>, Option<(PathBuf, Host)>),
}

/// Files of a machine that are kept for a recording.
#[derive(Debug, Clone)]
struct Heard {
    settings: Settings,
    /// Number of bytes that can still be kept.
    room: usize,
    /// Instant after which no file is read.
    until: Instant,
}

/// Largest number of bytes of paths and texts that are kept: about ten times as many as a large
/// machine has.
const ROOM: usize = 1 << 20;
/// File that lists the online CPUs.
const ONLINE: &str = "sys/devices/system/cpu/online";

/// File that lists the control groups of this process.
const OWN_CGROUP: &str = "proc/self/cgroup";

/// File that lists the CPUs that a boot option isolates.
const ISOLATED: &str = "sys/devices/system/cpu/isolated";
/// Mount point of the control groups.
const CGROUPS: &str = "sys/fs/cgroup/";

/// File with the features of the CPUs. The first 4096 bytes contain the features of the first CPU.
const CPUINFO: &str = "proc/cpuinfo";

/// Result of reading a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// Text of the file, without white space at both ends.
    Text(String),
    /// The file does not exist: the kernel lacks this setting.
    Absent,
    /// The file exists but this process is not allowed to read it, or the file is missing in the
    /// recording.
    Denied,
}

/// A file that matches a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Path without the leading `/`.
    pub(crate) path: String,
    /// Text that replaced `*`, or name of the CPU's folder. Empty if the pattern has neither.
    pub(crate) instance: String,
}

impl AuditMachine {
    /// Returns the machine whose folders `proc` and `sys` are below `root`. `cpus` should be quiet.
    ///
    /// # Errors
    /// If the online CPUs cannot be read.
    pub fn under(root: impl Into<PathBuf>, cpus: &[u32]) -> io::Result<AuditMachine> {
        let root = root.into();
        let host = Host::under(&root);
        AuditMachine::of(Source::Tree(root, host), cpus)
    }

    /// Returns the recorded machine, as it was at the time of the recording. `cpus` should be
    /// quiet.
    ///
    /// # Errors
    /// As for [`under`](Self::under).
    pub fn recorded(settings: Settings, cpus: &[u32]) -> io::Result<AuditMachine> {
        AuditMachine::of(Source::Recorded(Arc::new(settings), None), cpus)
    }

    /// Returns the recorded machine, as [`recorded`](Self::recorded) does. Data that the recording
    /// lacks, such as threads, come from the folders `proc` and `sys` below `root`.
    ///
    /// # Errors
    /// As for [`under`](Self::under).
    pub fn recorded_under(
        root: impl Into<PathBuf>,
        settings: Settings,
        cpus: &[u32],
    ) -> io::Result<AuditMachine> {
        let root = root.into();
        let host = Host::under(&root);
        let source = Source::Recorded(Arc::new(settings), Some((root, host)));
        AuditMachine::of(source, cpus)
    }

    /// Returns the same machine as [`under`](Self::under), with all CPUs selected, to make a
    /// recording. All files that are read until the instant `until` are kept.
    pub(crate) fn heard(root: impl Into<PathBuf>, until: Instant) -> io::Result<AuditMachine> {
        let heard = Heard {
            settings: Settings::default(),
            room: ROOM,
            until,
        };
        let source = Source::Heard(root.into(), RefCell::new(heard));
        let mut machine = AuditMachine::of(source, &[])?;
        machine.cpus = std::mem::take(&mut machine.others);
        Ok(machine)
    }

    fn of(source: Source, cpus: &[u32]) -> io::Result<AuditMachine> {
        let mut machine = AuditMachine {
            source,
            vms: OnceCell::new(),
            vm: None,
            cpus: Vec::new(),
            others: Vec::new(),
        };
        let Said::Text(online) = machine.read(ONLINE) else {
            return Err(io::Error::other(format!("/{ONLINE} has no list of CPUs")));
        };
        machine.others = cpu_list::parse(&online).map_err(io::Error::other)?;
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

    /// Returns all kept files; empty if the machine does not keep files.
    pub(crate) fn into_settings(self) -> Settings {
        match self.source {
            Source::Heard(_, heard) => heard.into_inner().settings,
            Source::Tree(..) | Source::Recorded(..) => Settings::default(),
        }
    }

    /// Returns the numbers of the kernel's version; empty if the version is unknown.
    pub(crate) fn kernel(&self) -> Vec<u32> {
        match self.read("proc/sys/kernel/osrelease") {
            Said::Text(release) => numbers(&release),
            _ => Vec::new(),
        }
    }

    /// Reads a file. Adds the CPUs of isolated cpuset partitions to the list of isolated CPUs.
    pub(crate) fn read(&self, path: &str) -> Said {
        match self.file(path) {
            Said::Text(started) if path == ISOLATED => self.isolated(started),
            said => said,
        }
    }

    fn file(&self, path: &str) -> Said {
        let most = if path == CPUINFO { 4096 } else { u64::MAX };
        self.said(path, |root| {
            let mut text = String::new();
            let file = fs::File::open(root.join(path))?;
            file.take(most).read_to_string(&mut text)?;
            Ok(text.trim().to_owned())
        })
    }

    /// Adds the CPUs of isolated cpuset partitions to `started`, the text of the kernel's file of
    /// isolated CPUs. This file lists only the CPUs of a boot option. Newer kernels list the other
    /// isolated CPUs at the root of the control groups. In older kernels, each group below the root
    /// has its own list.
    fn isolated(&self, started: String) -> Said {
        let listed = self.listed(&started, CpuFormat::List);
        if !self.cpus.is_empty() && self.cpus.iter().all(|cpu| listed.contains(cpu)) {
            return Said::Text(started);
        }
        let mut lists = vec![started];
        match self.file(&format!("{CGROUPS}cpuset.cpus.isolated")) {
            Said::Text(text) => lists.push(text),
            Said::Denied => return Said::Denied,
            Said::Absent => {
                let Some(folders) = self.folders(CGROUPS) else {
                    return Said::Denied;
                };
                for folder in folders {
                    let file = |name| self.file(&format!("{CGROUPS}{folder}/cpuset.cpus.{name}"));
                    match file("partition") {
                        Said::Text(kind) if kind == "isolated" => match file("effective") {
                            Said::Text(text) => lists.push(text),
                            Said::Absent => {}
                            Said::Denied => return Said::Denied,
                        },
                        Said::Denied => return Said::Denied,
                        _ => {}
                    }
                }
            }
        }
        lists.retain(|it| !it.is_empty());
        Said::Text(lists.join(","))
    }

    /// Returns the CPUs in the text of a list or a mask.
    pub(crate) fn listed(&self, text: &str, format: CpuFormat) -> Vec<u32> {
        let last = self.cpus.iter().chain(&self.others).max();
        cpus::listed(text, format, last.copied().unwrap_or(0))
    }

    /// Returns the online CPUs that are isolated.
    pub fn isolated_cpus(&self) -> Vec<u32> {
        let Said::Text(text) = self.read(ISOLATED) else {
            return Vec::new();
        };
        let mut listed = self.listed(&text, CpuFormat::List);
        listed.retain(|cpu| self.cpus.contains(cpu) || self.others.contains(cpu));
        listed
    }

    /// Reads a file or folder from the source of the machine. `read` does this if the source is a
    /// folder with files.
    fn said(&self, path: &str, read: impl FnOnce(&Path) -> io::Result<String>) -> Said {
        let of_tree = |root: &Path| match read(root) {
            Ok(text) => Said::Text(text),
            // A file without valid text counts as not readable.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidData
                ) =>
            {
                Said::Denied
            }
            Err(_) => Said::Absent,
        };
        match &self.source {
            Source::Tree(root, _) => of_tree(root),
            Source::Heard(root, heard) => {
                let mut heard = heard.borrow_mut();
                if Instant::now() >= heard.until {
                    return Said::Denied;
                }
                let said = of_tree(root);
                heard.keep(path, &said);
                said
            }
            Source::Recorded(settings, here) => match (settings.get(path), here) {
                (Some(Some(text)), _) => Said::Text(text.to_owned()),
                (Some(None), _) => Said::Absent,
                (None, Some((root, _))) => of_tree(root),
                (None, None) => Said::Denied,
            },
        }
    }

    /// Returns all existing files that match a pattern, sorted by number or name.
    pub(crate) fn files(&self, pattern: &str) -> Vec<Found> {
        const MARKS: [&str; 7] = [
            "{cpu}",
            "{vm}",
            "{vm_cgroup}",
            "{vm_cpu_cgroup}",
            "{own_cgroup}",
            "{own_cpu_cgroup}",
            "*",
        ];
        let marks = MARKS.iter();
        let first = marks.filter_map(|mark| Some((pattern.find(mark)?, *mark)));
        let Some((place, mark)) = first.min() else {
            let (path, instance) = (pattern.to_owned(), String::new());
            return vec![Found { path, instance }];
        };
        let (before, behind) = (&pattern[..place], &pattern[place + mark.len()..]);
        // Returns the text that replaces the placeholder, and the name of the instance.
        let same = |name: String| (name.clone(), name);
        let names: Vec<(String, String)> = match mark {
            "{cpu}" => {
                let cpus = self.cpus.iter();
                cpus.map(|cpu| (cpu.to_string(), format!("cpu{cpu}")))
                    .collect()
            }
            "{vm}" => {
                let pids = self.vms().iter().map(|vm| vm.pid.to_string());
                pids.map(same).collect()
            }
            "{vm_cgroup}" | "{vm_cpu_cgroup}" => {
                let cgroups = self.vm_cgroups(mark == "{vm_cpu_cgroup}");
                cgroups.into_iter().map(same).collect()
            }
            "{own_cgroup}" | "{own_cpu_cgroup}" if self.read(OWN_CGROUP) == Said::Denied => {
                // Returned so that the audit reports the unreadable file.
                let (path, instance) = (OWN_CGROUP.to_owned(), String::new());
                return vec![Found { path, instance }];
            }
            "{own_cgroup}" | "{own_cpu_cgroup}" => {
                let own = self.cgroups_of(OWN_CGROUP, mark == "{own_cpu_cgroup}");
                own.into_iter().map(same).collect()
            }
            _ => {
                let (folder, begin) = before.rsplit_once('/').unwrap_or(("", before));
                let folder = format!("{folder}/");
                let Some(folders) = self.folders(&folder) else {
                    // Returned so that the audit reports the unreadable folder.
                    let (path, instance) = (folder, String::new());
                    return vec![Found { path, instance }];
                };
                let mut names: Vec<_> = folders
                    .into_iter()
                    .filter_map(|name| Some(name.strip_prefix(begin)?.to_owned()))
                    .collect();
                names.sort_by_key(|name| (name.parse::<u32>().unwrap_or(u32::MAX), name.clone()));
                names.into_iter().map(same).collect()
            }
        };
        let found = names.into_iter().flat_map(|(name, instance)| {
            let of_name = self.files(&format!("{before}{name}{behind}")).into_iter();
            of_name.map(move |found| Found {
                instance: match found.instance.is_empty() {
                    true => instance.clone(),
                    false => format!("{instance}/{}", found.instance),
                },
                ..found
            })
        });
        found.collect()
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
            .flat_map(|file| self.cgroups_of(&file, is_first))
            .collect()
    }

    /// Returns the control group in a file of /proc, and all its parent groups. The root has no
    /// files with limits, except the root of a container's namespace. `is_first` selects the
    /// hierarchy of version 1 for CPUs.
    fn cgroups_of(&self, file: &str, is_first: bool) -> Vec<String> {
        let Said::Text(text) = self.read(file) else {
            return Vec::new();
        };
        let mut lines = text.lines().filter_map(|line| {
            let (_, line) = line.split_once(':')?;
            line.split_once(':')
        });
        let of_cpus = |of: &str| match is_first {
            true => of.split(',').any(|it| it == "cpu"),
            false => of.is_empty(),
        };
        let Some((_, own)) = lines.find(|(of, _)| of_cpus(of)) else {
            return Vec::new();
        };
        let ends = own.char_indices().filter(|(at, it)| *at > 0 && *it == '/');
        let above = ends.map(|(at, _)| own[..at].to_owned());
        let mut cgroups: Vec<String> = [String::new()].into_iter().chain(above).collect();
        cgroups.extend((own.len() > 1).then(|| own.to_owned()));
        cgroups
    }

    /// Returns the current machine, whose threads can be read. `None` for another machine, because
    /// recordings contain no threads.
    pub(crate) fn host(&self) -> Option<&Host> {
        Some(self.here()?.1)
    }

    /// Returns where the machine's current state can be read; `None` if this is not possible.
    fn here(&self) -> Option<(&Path, &Host)> {
        match &self.source {
            Source::Tree(root, host) | Source::Recorded(_, Some((root, host))) => {
                Some((root, host))
            }
            Source::Heard(..) | Source::Recorded(_, None) => None,
        }
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
        let Some((root, host)) = self.here() else {
            return Some(tasks::ALL.into());
        };
        let folders = host.processes().into_iter();
        let mut folders = folders.map(|pid| format!("proc/{pid}/fd"));
        let is_denied = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
        folders.find(|folder| match fs::read_dir(root.join(folder)) {
            Err(error) => is_denied(error),
            // A folder may be readable even if the targets of its links are not.
            Ok(mut files) => {
                let file = files.next().and_then(Result::ok);
                file.is_some_and(|file| fs::read_link(file.path()).is_err_and(is_denied))
            }
        })
    }

    /// Returns the names of the folders in `folder`, whose path must end with `/`. `None` if they
    /// could not be read.
    pub(crate) fn folders(&self, folder: &str) -> Option<Vec<String>> {
        let said = self.said(folder, |root| {
            let entries = fs::read_dir(root.join(folder))?.flatten();
            let folders = entries.filter(|entry| entry.path().is_dir());
            let names = folders.filter_map(|entry| entry.file_name().into_string().ok());
            // A name may contain any character except `/`. No setting has a name with a line break.
            let names = names.filter(|name| !name.contains('\n'));
            Ok(names.collect::<Vec<_>>().join("\n"))
        });
        match said {
            Said::Text(names) => Some(names.lines().map(str::to_owned).collect()),
            Said::Absent => Some(Vec::new()),
            Said::Denied => None,
        }
    }
}

impl Heard {
    /// Adds a file to the settings of a recording, unless their total size would exceed the limit.
    /// A file that could not be read is not added.
    fn keep(&mut self, path: &str, said: &Said) {
        let text = match said {
            Said::Text(text) => Some(&**text),
            Said::Absent => None,
            Said::Denied => return,
        };
        let bytes = path.len() + text.map_or(0, str::len);
        if let Some(room) = self.room.checked_sub(bytes)
            && self.settings.insert(path, text).is_ok()
        {
            self.room = room;
        }
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
