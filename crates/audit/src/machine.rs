//! Files of a machine, of a tree that was made up, or of a machine as it was recorded.

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

/// A machine, and which of its CPUs are in question.
#[derive(Debug, Clone)]
pub struct Machine {
    source: Source,
    vms: OnceCell<Vec<VmTasks>>,
    /// The process of the one VM that is looked at; all, where there is none.
    vm: Option<u32>,
    /// The CPUs that are to be quiet, ascending.
    pub cpus: Vec<u32>,
    /// All others that are online, ascending.
    pub others: Vec<u32>,
}

/// Where its files are.
#[derive(Debug, Clone)]
enum Source {
    /// Below this folder.
    Tree(PathBuf, Host),
    /// There, and what is read of them is kept.
    Heard(PathBuf, RefCell<Heard>),
    /// In a recording; what it lacks is read below this folder, if it is of this machine.
    Recorded(Arc<Settings>, Option<(PathBuf, Host)>),
}

/// What is kept of a machine.
#[derive(Debug, Clone)]
struct Heard {
    settings: Settings,
    /// Bytes that it may still have.
    room: usize,
    /// Nothing is read any more from then on.
    until: Instant,
}

/// Bytes of paths and texts that are kept of a machine: some ten times what a large one has.
const ROOM: usize = 1 << 20;
/// The file that says which CPUs are online.
const ONLINE: &str = "sys/devices/system/cpu/online";

/// The file that says in which control groups this process is.
const OWN_CGROUP: &str = "proc/self/cgroup";

/// The CPUs that the kernel was started to isolate.
const ISOLATED: &str = "sys/devices/system/cpu/isolated";
/// Where control groups are.
const CGROUPS: &str = "sys/fs/cgroup/";

/// What tells the CPUs' abilities; the first one's are in its first 4096 bytes.
const CPUINFO: &str = "proc/cpuinfo";

/// What a file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// This, without the white space around it.
    Text(String),
    /// There is no such file: this kernel has no such setting.
    Absent,
    /// It is there, and this process may not read it; or it was not read when that was recorded.
    Denied,
}

/// One file of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Without the `/` before it.
    pub(crate) path: String,
    /// What stood in the place of `*`, or the folder of a CPU; empty where the pattern had neither.
    pub(crate) instance: String,
}

impl Machine {
    /// The machine whose `proc` and `sys` are below `root`.
    ///
    /// # Errors
    /// If it does not say which CPUs are online.
    pub fn under(root: impl Into<PathBuf>, cpus: &[u32]) -> io::Result<Machine> {
        let root = root.into();
        let host = Host::under(&root);
        Machine::of(Source::Tree(root, host), cpus)
    }

    /// The machine that was recorded, as it was then.
    ///
    /// # Errors
    /// As [`under`](Machine::under).
    pub fn recorded(settings: Settings, cpus: &[u32]) -> io::Result<Machine> {
        Machine::of(Source::Recorded(Arc::new(settings), None), cpus)
    }

    /// As [`recorded`](Machine::recorded), of the machine whose `proc` and `sys` are below `root`: what the recording
    /// lacks, such as threads, is as it is now.
    ///
    /// # Errors
    /// As [`under`](Machine::under).
    pub fn recorded_under(
        root: impl Into<PathBuf>,
        settings: Settings,
        cpus: &[u32],
    ) -> io::Result<Machine> {
        let root = root.into();
        let host = Host::under(&root);
        let source = Source::Recorded(Arc::new(settings), Some((root, host)));
        Machine::of(source, cpus)
    }

    /// As [`under`](Machine::under), with all its CPUs, to be recorded: what is read until then is kept.
    pub(crate) fn heard(root: impl Into<PathBuf>, until: Instant) -> io::Result<Machine> {
        let heard = Heard {
            settings: Settings::default(),
            room: ROOM,
            until,
        };
        let source = Source::Heard(root.into(), RefCell::new(heard));
        let mut machine = Machine::of(source, &[])?;
        machine.cpus = std::mem::take(&mut machine.others);
        Ok(machine)
    }

    fn of(source: Source, cpus: &[u32]) -> io::Result<Machine> {
        let mut machine = Machine {
            source,
            vms: OnceCell::new(),
            vm: None,
            cpus: Vec::new(),
            others: Vec::new(),
        };
        let Said::Text(online) = machine.read(ONLINE) else {
            return Err(io::Error::other(format!("/{ONLINE} says nothing")));
        };
        machine.others = cpu_list::parse(&online).map_err(io::Error::other)?;
        Ok(machine.about(cpus))
    }

    /// The same, with these CPUs in question.
    pub fn about(mut self, cpus: &[u32]) -> Machine {
        self.others.append(&mut self.cpus);
        self.others.sort_unstable();
        self.others.dedup();
        self.others.retain(|cpu| !cpus.contains(cpu));
        self.cpus = cpus.to_vec();
        self.vms = OnceCell::new();
        self
    }

    /// The same, without all VMs but that of this process.
    pub fn of_vm(mut self, pid: u32) -> Machine {
        self.vm = Some(pid);
        self.vms = OnceCell::new();
        self
    }

    /// What was read of it; nothing unless that is kept.
    pub(crate) fn into_settings(self) -> Settings {
        match self.source {
            Source::Heard(_, heard) => heard.into_inner().settings,
            Source::Tree(..) | Source::Recorded(..) => Settings::default(),
        }
    }

    /// The version of its kernel, as far as it is numbers.
    pub(crate) fn kernel(&self) -> Vec<u32> {
        match self.read("proc/sys/kernel/osrelease") {
            Said::Text(release) => numbers(&release),
            _ => Vec::new(),
        }
    }

    /// What a file says. Of isolated CPUs that are those of isolated partitions as well.
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

    /// With those of isolated partitions of cpusets, which the kernel does not list with those that it was started to
    /// isolate: the root of control groups does in newer kernels, or else each group below it.
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

    /// The CPUs in a list or a mask.
    pub(crate) fn listed(&self, text: &str, format: CpuFormat) -> Vec<u32> {
        let last = self.cpus.iter().chain(&self.others).max();
        cpus::listed(text, format, last.copied().unwrap_or(0))
    }

    /// The CPUs that are isolated, and online.
    pub fn isolated_cpus(&self) -> Vec<u32> {
        let Said::Text(text) = self.read(ISOLATED) else {
            return Vec::new();
        };
        let mut listed = self.listed(&text, CpuFormat::List);
        listed.retain(|cpu| self.cpus.contains(cpu) || self.others.contains(cpu));
        listed
    }

    /// What the source says of a path; in a tree, what `read` says.
    fn said(&self, path: &str, read: impl FnOnce(&Path) -> io::Result<String>) -> Said {
        let of_tree = |root: &Path| match read(root) {
            Ok(text) => Said::Text(text),
            // What is no text was read by nobody.
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

    /// All files of a pattern that are there, in the order of their numbers or names.
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
        // What stands there, and how it is called.
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
                // So that it is told.
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
                    // So that it is told.
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

    /// The control groups that all threads of the VMs are in, and those that hold them.
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

    /// The control group in such a file of /proc, and all that hold it. The root's files of limits are not there, but where
    /// it is that of a container's namespace. `is_first`: of the first version's hierarchy for CPUs.
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

    /// Its threads, where they can be looked at: they are in no recording.
    pub(crate) fn host(&self) -> Option<&Host> {
        Some(self.here()?.1)
    }

    /// Where it is looked at as it is now.
    fn here(&self) -> Option<(&Path, &Host)> {
        match &self.source {
            Source::Tree(root, host) | Source::Recorded(_, Some((root, host))) => {
                Some((root, host))
            }
            Source::Heard(..) | Source::Recorded(_, None) => None,
        }
    }

    /// The VMs whose vCPUs may run on the CPUs in question.
    pub(crate) fn vms(&self) -> &[VmTasks] {
        self.vms.get_or_init(|| {
            let host = self.host();
            let mut vms = host.map_or_else(Vec::new, |host| tasks::vms(host, &self.cpus));
            vms.retain(|vm| self.vm.is_none_or(|pid| vm.pid == pid));
            vms
        })
    }

    /// A process that may be a VM, and that this process may not look into; of another machine, that is all.
    pub(crate) fn hidden(&self) -> Option<String> {
        let Some((root, host)) = self.here() else {
            return Some(tasks::ALL.into());
        };
        let folders = host.processes().into_iter();
        let mut folders = folders.map(|pid| format!("proc/{pid}/fd"));
        let is_denied = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
        folders.find(|folder| match fs::read_dir(root.join(folder)) {
            Err(error) => is_denied(error),
            // It can be listed, and yet not be seen where its files lead.
            Ok(mut files) => {
                let file = files.next().and_then(Result::ok);
                file.is_some_and(|file| fs::read_link(file.path()).is_err_and(is_denied))
            }
        })
    }

    /// The names of the folders in a folder, whose path ends in `/`; `None` where they could not be read.
    pub(crate) fn folders(&self, folder: &str) -> Option<Vec<String>> {
        let said = self.said(folder, |root| {
            let entries = fs::read_dir(root.join(folder))?.flatten();
            let folders = entries.filter(|entry| entry.path().is_dir());
            let names = folders.filter_map(|entry| entry.file_name().into_string().ok());
            // A name may have any letter but `/`. No setting is below one that has two lines.
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
    /// Keeps it as far as there is room.
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

/// `6.12.9-rt` as 6, 12, 9.
pub(crate) fn numbers(version: &str) -> Vec<u32> {
    let plain = version
        .split(|it: char| !it.is_ascii_digit() && it != '.')
        .next();
    let parts = plain.unwrap_or_default().split('.');
    parts.map_while(|part| part.parse().ok()).collect()
}
