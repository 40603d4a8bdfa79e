//! Files of a machine, or of a tree that was made up.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;

use vmnoise_tracer::host::{Host, cpu_list};

use crate::tasks::{self, VmTasks};

/// A machine, and which of its CPUs are in question.
#[derive(Debug, Clone)]
pub struct Machine {
    root: PathBuf,
    host: Host,
    vms: OnceCell<Vec<VmTasks>>,
    /// The CPUs that are to be quiet, ascending.
    pub cpus: Vec<u32>,
    /// All others that are online, ascending.
    pub others: Vec<u32>,
}

/// What a file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// This, without the white space around it.
    Text(String),
    /// There is no such file: this kernel has no such setting.
    Absent,
    /// It is there, and this process may not read it.
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
        let online = fs::read_to_string(root.join("sys/devices/system/cpu/online"))?;
        let online = cpu_list::parse(online.trim()).map_err(io::Error::other)?;
        Ok(Machine {
            host: Host::under(&root),
            vms: OnceCell::new(),
            root,
            cpus: cpus.to_vec(),
            others: online
                .into_iter()
                .filter(|cpu| !cpus.contains(cpu))
                .collect(),
        })
    }

    /// The version of its kernel, as far as it is numbers.
    pub(crate) fn kernel(&self) -> Vec<u32> {
        match self.read("proc/sys/kernel/osrelease") {
            Said::Text(release) => numbers(&release),
            _ => Vec::new(),
        }
    }

    pub(crate) fn read(&self, path: &str) -> Said {
        match fs::read_to_string(self.root.join(path)) {
            Ok(text) => Said::Text(text.trim().to_owned()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Said::Denied,
            Err(_) => Said::Absent,
        }
    }

    /// All files of a pattern that are there, in the order of their numbers or names.
    pub(crate) fn files(&self, pattern: &str) -> Vec<Found> {
        const MARKS: [&str; 5] = ["{cpu}", "{vm}", "{vm_cgroup}", "{own_cgroup}", "*"];
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
            "{vm_cgroup}" => self.vm_cgroups().into_iter().map(same).collect(),
            "{own_cgroup}" => {
                let own = self.cgroups_of("proc/self/cgroup");
                own.into_iter().map(same).collect()
            }
            _ => {
                let (folder, begin) = before.rsplit_once('/').unwrap_or(("", before));
                let folders = self.folders(&format!("{folder}/")).into_iter();
                let mut names: Vec<_> = folders
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
    fn vm_cgroups(&self) -> BTreeSet<String> {
        let of_vm = |vm: &VmTasks| {
            let pid = vm.pid;
            let files = vm
                .tids()
                .map(move |tid| format!("proc/{pid}/task/{tid}/cgroup"));
            files.collect::<Vec<_>>()
        };
        let files = self.vms().iter().flat_map(of_vm);
        files.flat_map(|file| self.cgroups_of(&file)).collect()
    }

    /// The control group in such a file of /proc, and all that hold it but the root, which has no limits.
    fn cgroups_of(&self, file: &str) -> Vec<String> {
        let Said::Text(text) = self.read(file) else {
            return Vec::new();
        };
        let unified = text.lines().find_map(|line| line.strip_prefix("0::"));
        let own = unified.unwrap_or_default();
        let ends = own.char_indices().filter(|(at, it)| *at > 0 && *it == '/');
        let mut cgroups: Vec<String> = ends.map(|(at, _)| own[..at].to_owned()).collect();
        cgroups.extend((own.len() > 1).then(|| own.to_owned()));
        cgroups
    }

    /// Its threads, where they can be looked at.
    pub(crate) fn host(&self) -> Option<&Host> {
        Some(&self.host)
    }

    /// The VMs whose vCPUs may run on the CPUs in question.
    pub(crate) fn vms(&self) -> &[VmTasks] {
        self.vms.get_or_init(|| tasks::vms(&self.host, &self.cpus))
    }

    /// A process that may be a VM, and that this process may not look into.
    pub(crate) fn hidden(&self) -> Option<String> {
        let folders = self.host.processes().into_iter();
        let mut folders = folders.map(|pid| format!("proc/{pid}/fd"));
        let is_denied = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
        folders.find(|folder| match fs::read_dir(self.root.join(folder)) {
            Err(error) => is_denied(error),
            // It can be listed, and yet not be seen where its files lead.
            Ok(mut files) => {
                let file = files.next().and_then(Result::ok);
                file.is_some_and(|file| fs::read_link(file.path()).is_err_and(is_denied))
            }
        })
    }

    /// The folders in a folder.
    pub(crate) fn folders(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(folder)).into_iter().flatten();
        let folders = entries.flatten().filter(|entry| entry.path().is_dir());
        folders
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect()
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
